"""REST routes of memory: resolve the store, call one service, shape the answer."""

from ninja import Router

from memory.api import facts, lanes, merge, passes, stores

router = Router()
for _part in (merge, stores, facts, lanes, passes):  # `merge` is no store's name, so its paths come first
    router.add_router("", _part.router)
