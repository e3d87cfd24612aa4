"""LangSmith: `@traceable` and its wrapped client; as OpenTelemetry spans, or as its own runs."""

from langsmith import Client, traceable
from langsmith.wrappers import wrap_openai
from openai import OpenAI
from weather import QUESTION, answer, make_client, weather

service = Client()
tool = traceable(name="weather", run_type="tool", client=service)(weather)


@traceable(name="desk", client=service)
def desk(question: str) -> str:
    return answer(question, wrap_openai(make_client(OpenAI)), tool)


desk(QUESTION)
service.flush()
