# SPDX-License-Identifier: Apache-2.0
"""A session as its client sees it."""

import json

# Says a line every 10 ms, counting, and repeats each line that it is told; with a number of its own, so that
# one that was started again is not taken for this one. Ends with its standard input.
TALKER = r"""
$| = 1; srand; my $own = int(rand(1e9)); my $n = 0; my $buf = "";
while (1) {
    my $r = ""; vec($r, 0, 1) = 1;
    if (select($r, undef, undef, 0.01) > 0) {
        my $got = sysread(STDIN, $buf, 65536, length $buf);
        exit 0 unless $got;
        while ($buf =~ s/^(.*)\n//) { syswrite STDOUT, "e $own $1\n"; }
    } else { syswrite STDOUT, "c $own $n\n"; $n++; }
}
"""


class Session:
    def __init__(self, client, name):
        self.client = client
        self.name = name
        self.path = f"/v1/sessions/{name}"

    async def create(self, **spec):
        return (await self.client.call("POST", "/v1/sessions", {"session_id": self.name, **spec}, (201,))).json

    async def delete(self):
        return await self.client.call("DELETE", self.path, want=(200,))

    async def info(self):
        return (await self.client.call("GET", self.path, want=(200,))).json

    async def exec(self, cmd, **fields):
        """The result of a command."""
        return (await self.client.call("POST", f"{self.path}/exec", {"cmd": cmd, **fields}, (200,))).json

    async def out(self, cmd, **fields):
        """What a command that must succeed printed."""
        result = await self.exec(cmd, **fields)
        if result["exit_code"] != 0 or result["cause"] != "exited":
            raise AssertionError(f"{self.name}: {cmd!r} gave {json.dumps(result)[:600]}")
        return result["stdout"]

    async def stream(self, cmd, **fields):
        """The events of a command."""
        events = self.client.events("POST", f"{self.path}/exec", {"cmd": cmd, "stream": True, **fields})
        return [event async for event in events]

    async def put(self, path, data):
        return await self.client.call("PUT", f"{self.path}/files{path}", data)

    async def get(self, path):
        return (await self.client.call("GET", f"{self.path}/files{path}", want=(200,))).body

    async def start(self, process_id, command, *args):
        body = {"process_id": process_id, "command": command, "args": list(args)}
        return (await self.client.call("POST", f"{self.path}/processes", body, (201,))).json

    async def process(self, process_id):
        return (await self.client.call("GET", f"{self.path}/processes/{process_id}", want=(200,))).json

    async def stop(self, process_id):
        return await self.client.call("DELETE", f"{self.path}/processes/{process_id}", want=(200,))

    def relay(self, process_id, since=None):
        query = "" if since is None else f"?since={since}"
        return f"{self.path}/managed-process/{process_id}/ws{query}"


async def names(client):
    """Every session that boxd knows: {name: info}."""
    found = {}
    after = ""
    while True:
        page = (await client.call("GET", f"/v1/sessions?limit=1000{after}", want=(200,))).json
        found.update({info["session_id"]: info for info in page["sessions"]})
        if not page.get("next"):
            return found
        after = f"&after={page['next']}"
