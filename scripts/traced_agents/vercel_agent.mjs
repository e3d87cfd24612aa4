// Vercel's AI SDK: `generateText` with a tool, its telemetry switched on.
import { createOpenAI } from "@ai-sdk/openai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";

const recorder = process.env.RECORDER;
const exporter = new OTLPTraceExporter({ url: `${recorder}/v1/traces` });
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
provider.register();

await generateText({
  model: createOpenAI({ baseURL: `${recorder}/v1`, apiKey: "none" }).chat("gpt-4o-mini"),
  system: "Answer in one sentence.",
  prompt: "How warm is it in Paris?",
  stopWhen: stepCountIs(3),
  tools: {
    weather: tool({
      description: "The weather now.",
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => `12 degrees in ${city}`,
    }),
  },
  experimental_telemetry: { isEnabled: true, functionId: "desk" },
});
await provider.shutdown();
