// OpenTelemetry's SDK for JavaScript, whose exporter sends JSON; spans by hand, as the conventions say.
// Where they go and with which key is said by the environment.
import { SpanStatusCode } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

const QUESTION = "How warm is it in Paris?";
const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "desk", "service.version": "1.2" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
});
provider.register();
const tracer = provider.getTracer("desk");

function traced(name, attributes, work) {
  return tracer.startActiveSpan(name, { attributes }, async (span) => {
    try {
      return await work(span);
    } catch (error) {
      span.recordException(error);
      span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
      throw error;
    } finally {
      span.end();
    }
  });
}

const write = (role, content) =>
  JSON.stringify([{ role, parts: [{ type: "text", content: content ?? "" }] }]);

function chat(messages) {
  const said = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o-mini",
    "gen_ai.input.messages": write("user", QUESTION),
  };
  return traced("chat gpt-4o-mini", said, async (span) => {
    const body = JSON.stringify({ model: "gpt-4o-mini", messages });
    const url = `${process.env.RECORDER}/v1/chat/completions`;
    const done = await (await fetch(url, { method: "POST", body })).json();
    span.setAttribute("gen_ai.response.model", done.model);
    span.setAttribute("gen_ai.usage.input_tokens", done.usage.prompt_tokens);
    span.setAttribute("gen_ai.usage.output_tokens", done.usage.completion_tokens);
    const { message } = done.choices[0];
    span.setAttribute("gen_ai.output.messages", write("assistant", message.content));
    return message;
  });
}

function weather(city) {
  const said = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "weather",
    "gen_ai.tool.call.arguments": JSON.stringify({ city }),
  };
  return traced("execute_tool weather", said, async (span) => {
    if (process.env.BROKEN_TOOL) throw new Error("the station is down");
    const told = `12 degrees in ${city}`;
    span.setAttribute("gen_ai.tool.call.result", told);
    return told;
  });
}

const about = { "gen_ai.operation.name": "invoke_agent", "session.id": "s-1", "user.id": "u-1" };
try {
  await traced("invoke_agent desk", about, async () => {
    const messages = [{ role: "user", content: QUESTION }];
    messages.push(await chat(messages));
    messages.push({ role: "tool", content: await weather("Paris") });
    await chat(messages);
  });
} finally {
  await provider.shutdown();
}
