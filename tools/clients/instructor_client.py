"""instructor against the scripted model, in every mode it has for OpenAI-compatible servers, whole and
streamed."""

import sys
from collections.abc import Iterable

import instructor
import openai
from instructor import Mode
from instructor.v2.core.registry import mode_registry, normalize_mode
from instructor.utils.providers import Provider
from pydantic import BaseModel

from checks import MODEL, PERSON, QUESTION, SECOND_PERSON, equal, one


class User(BaseModel):
    name: str
    age: int


def client(base, mode):
    plain = openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0)
    return instructor.from_openai(plain, mode=mode)


def options(question=QUESTION):
    return {"model": MODEL, "messages": question, "max_retries": 1}


def whole(base, mode):
    if mode == Mode.PARALLEL_TOOLS:
        both = [{"role": "user", "content": "Who are both?"}]
        found = client(base, mode).chat.completions.create(
            response_model=Iterable[User], **options(both))
        return equal([user.model_dump() for user in found], [PERSON, SECOND_PERSON])
    user = client(base, mode).chat.completions.create(response_model=User, **options())
    equal(user.model_dump(), PERSON)


def partial(base, mode):
    found = list(client(base, mode).chat.completions.create_partial(
        response_model=User, **options()))
    equal(found[-1].model_dump(), PERSON)


def modes():
    """Those that are OpenAI's own, and older names that become them."""
    own = set(mode_registry.get_modes_for_provider(Provider.OPENAI))
    return [mode for mode in Mode if mode in own or normalize_mode(Provider.OPENAI, mode) in own]


base, failed = sys.argv[1], 0
for mode in modes():
    failed += not one("instructor", f"Mode.{mode.name}", lambda: whole(base, mode))
    if mode != Mode.PARALLEL_TOOLS:
        failed += not one("instructor", f"Mode.{mode.name}, partial", lambda: partial(base, mode))
sys.exit(1 if failed else 0)
