"""Django admin over memory: index rows are what its lists read, services are what its pages do."""

from django.contrib import admin

from memory.admin.documents import DocumentAdmin
from memory.admin.stores import StoreAdmin
from memory.models import Document, Store

admin.site.register(Store, StoreAdmin)
admin.site.register(Document, DocumentAdmin)
