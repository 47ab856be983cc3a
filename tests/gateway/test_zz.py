import asyncio, time
import pytest
from gateway.tools import TOOLS, Answer, Tool
from gateway.models import Invocation
from tests.gateway.test_server import connected, told
from coffer import asgi, later
from tests.serving import serving
@pytest.mark.parametrize("late",[True,False])
def test_measure(repo, monkeypatch, late):
    async def go(address):
        async with connected(address, repo) as c:
            for i in range(100): await told(c,"remember",text=f"widget {i} is made of steel number {i}")
            if not late:
                later.flush(); monkeypatch.setattr(later,"write",lambda job: None)
            for _ in range(3): await told(c,"recall",query="steel widget 7")
            ts=[]; rs=[]
            for _ in range(30):
                a=time.perf_counter(); await told(c,"recall",query="steel widget 7"); ts.append((time.perf_counter()-a)*1000)
                a=time.perf_counter(); await told(c,"resume"); rs.append((time.perf_counter()-a)*1000)
            print(f"MEASURE late={late} recall={sorted(ts)[15]:.1f} resume={sorted(rs)[15]:.1f}")
    with serving(asgi.build()) as address: asyncio.run(go(address))
    later.flush(); print("MEASURE", list(Invocation.objects.filter(tool="coffer__recall").values_list("ms",flat=True)[:10]))
