"""REST routes of agents: call one service, shape the answer."""

from ninja import Router

from agents.api import agents, context, hooks

router = Router()
for _part in (agents, context, hooks):
    router.add_router("", _part.router)
