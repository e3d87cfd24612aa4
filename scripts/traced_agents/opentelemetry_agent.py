"""opentelemetry-sdk alone: spans by hand, named as the conventions for models say.

Where they go, with which key and packed how is said by the environment, as OpenTelemetry has it.
"""

import json
from types import SimpleNamespace
from typing import Any

from openai import OpenAI
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from weather import QUESTION, answer, make_client, weather

resource = Resource.create({"service.name": "desk", "service.version": "1.2"})
provider = TracerProvider(resource=resource)  # what is left is sent when the program ends
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
tracer = provider.get_tracer("desk")
model = make_client(OpenAI)


def write(role: str, content: Any) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": content or ""}]}])


def create(**given: Any) -> Any:
    said = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": given["model"],
        "gen_ai.input.messages": write("user", QUESTION),
    }
    with tracer.start_as_current_span(f"chat {given['model']}", attributes=said) as span:
        done = model.chat.completions.create(**given)
        span.set_attribute("gen_ai.response.model", done.model)
        span.set_attribute("gen_ai.usage.input_tokens", done.usage.prompt_tokens)
        span.set_attribute("gen_ai.usage.output_tokens", done.usage.completion_tokens)
        written = write("assistant", done.choices[0].message.content)
        span.set_attribute("gen_ai.output.messages", written)
        return done


def tool(city: str) -> str:
    said = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.call.arguments": json.dumps({"city": city}),
    }
    with tracer.start_as_current_span("execute_tool weather", attributes=said) as span:
        told = weather(city)
        span.set_attribute("gen_ai.tool.call.result", told)
        return told


about = {"gen_ai.operation.name": "invoke_agent", "session.id": "s-1", "user.id": "u-1"}
with tracer.start_as_current_span("invoke_agent desk", attributes=about):
    completions = SimpleNamespace(create=create)
    answer(QUESTION, SimpleNamespace(chat=SimpleNamespace(completions=completions)), tool)
