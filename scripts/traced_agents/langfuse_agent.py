"""Langfuse: `@observe`, and its own OpenAI client."""

from langfuse import get_client, observe
from langfuse.openai import OpenAI
from weather import QUESTION, answer, make_client, weather

tool = observe(name="weather", as_type="tool")(weather)


@observe(name="desk", as_type="agent")
def desk(question: str) -> str:
    return answer(question, make_client(OpenAI), tool)


desk(QUESTION)
get_client().flush()
