"""Handles that a killed server must still have: all that it acknowledged as durable."""

import httpx

# Others are deleted, so that the budget of the disk suffices.
MOST_HANDLES = 6


class KeptHandles:
    def __init__(self, traffic):
        self.traffic = traffic
        self.made = self.acknowledged = 0
        # Index of the prompt by name, of those that are there for certain.
        self.kept = {}

    async def act(self, base, chance):
        """Makes and deletes handles until the server is killed."""
        async with httpx.AsyncClient(timeout=None) as client:
            try:
                while True:
                    await self.create(client, base, chance.randrange(len(self.traffic.prompts)))
                    while len(self.kept) > MOST_HANDLES:
                        await self.delete(client, base, next(iter(self.kept)))
            except httpx.HTTPError:
                pass

    async def create(self, client, base, index):
        self.made += 1
        name = f"prompt-{self.made}"
        prompt = self.traffic.prompts[index][: self.traffic.stem_tokens]
        body = {"prompt": prompt, "name": name}
        response = await client.post(f"{base}/v1/kv_cache/handles", json=body)
        assert response.status_code == 201, f"{response.status_code}: {response.text[:300]}"
        assert response.json()["durable"], response.text
        self.kept[name] = index
        self.acknowledged += 1

    async def delete(self, client, base, name):
        # From the moment that it is asked for, either is right.
        del self.kept[name]
        response = await client.delete(f"{base}/v1/kv_cache/handles/{name}")
        assert response.status_code == 200, f"{response.status_code}: {response.text[:300]}"

    async def check(self, base):
        """All are listed, and a request that goes on from one has the right output."""
        async with httpx.AsyncClient(timeout=None) as client:
            response = await client.get(f"{base}/v1/kv_cache/handles")
            listed = {handle["name"] for handle in response.json()["data"]}
            assert self.kept.keys() <= listed, f"{self.kept.keys() - listed} are lost"
            for name, index in list(self.kept.items())[-2:]:
                end = self.traffic.prompts[index][self.traffic.stem_tokens :]
                fields = {"prompt": end, "kv_cache": {"handle": name}}
                ids, _ = await self.traffic.ask(client, base, index, **fields)
                wanted = self.traffic.outputs[index]
                assert ids == wanted, f"from handle {name}: got {ids}, want {wanted}"
