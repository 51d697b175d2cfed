#!/usr/bin/env bash
# curl: a question with a tool, answered as it comes. Start the server first: constrained serve
curl -sSN "${CONSTRAINED_URL:-http://127.0.0.1:8080}/v1/chat/completions" \
  -H "Content-Type: application/json" -d '{
    "messages": [{"role": "user", "content": "What is the weather in Paris tomorrow, in celsius?"}],
    "tools": [{"type": "function", "function": {
      "name": "get_weather",
      "description": "Get the weather forecast for a city.",
      "parameters": {
        "type": "object",
        "properties": {
          "city": {"type": "string", "description": "the name of the city"},
          "day": {"type": "string", "enum": ["today", "tomorrow"]},
          "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}
        },
        "required": ["city", "day", "unit"]
      }
    }}],
    "temperature": 0,
    "stream": true
  }'
