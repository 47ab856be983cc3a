"""Addresses of memory's pages."""

from django.urls import path

from memory.views import activity, archive, documents, files, passes, search, stores

urlpatterns = [
    path("", stores.overview, name="stores"),
    path("stores/<name>", stores.knowledge, name="store"),
    path("stores/<name>/rules", stores.rules_lane, name="rules"),
    path("stores/<name>/journal", stores.journal_lane, name="journal"),
    path("stores/<name>/handoff", stores.handoff_lane, name="handoff"),
    path("stores/<name>/changelog", stores.changelog_lane, name="changelog"),
    path("stores/<name>/rename", stores.rename, name="rename"),
    path("stores/<name>/knowledge/<ref>", documents.fact, name="document"),
    path("stores/<name>/knowledge/<ref>/delete", documents.delete_fact, name="document-delete"),
    path("stores/<name>/journal/<period>", documents.day, name="day"),
    path("stores/<name>/journal/<period>/delete", documents.delete_day, name="day-delete"),
    path("stores/<name>/handoff/<slug>", documents.scene, name="scene"),
    path("stores/<name>/handoff/<slug>/delete", documents.delete_scene, name="scene-delete"),
    path("stores/<name>/archive", archive.listing, name="archive"),
    path("stores/<name>/archive/<file>", archive.version, name="version"),
    path("stores/<name>/archive/<file>/restore", archive.restore, name="restore"),
    path("stores/<name>/text/<path:file>", files.text, name="text"),
    path("stores/<name>/organize", passes.organize, name="organize"),
    path("stores/<name>/reorg", passes.reorganize, name="reorg"),
    path("stores/<name>/passes/<run>/undo", passes.undo, name="undo-pass"),
    path("search", search.page, name="search"),
    path("activity", activity.page, name="activity"),
    path("health", activity.health, name="health"),
    path("open", files.act, name="open-file"),
]
