"""REST routes of memory: resolve the store, call one service, shape the answer."""

from ninja import Router

from memory.api import facts, lanes, stores

router = Router()
for _part in (stores, facts, lanes):
    router.add_router("", _part.router)
