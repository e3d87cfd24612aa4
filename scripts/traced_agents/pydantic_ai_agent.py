"""Pydantic AI, traced by Logfire: where spans go is said by OpenTelemetry's variables alone."""

import os

import logfire
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from weather import QUESTION, weather

logfire.configure(send_to_logfire=False, console=False, service_name="desk", service_version="1.2")
logfire.instrument_pydantic_ai()
provider = OpenAIProvider(base_url=f"{os.environ['RECORDER']}/v1", api_key="none")
model = OpenAIChatModel("gpt-4o-mini", provider=provider)
Agent(model, name="desk", tools=[weather], system_prompt="Answer in one sentence.").run_sync(
    QUESTION
)
