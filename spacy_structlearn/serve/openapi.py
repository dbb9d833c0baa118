"""The description of the server, as OpenAPI 3.1 and as a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from ..about import __version__

ERRORS = {
    400: "The body is not JSON, or a field is wrong; the error says which.",
    403: "The name of the host, or the origin, is not allowed.",
    408: "The body came too slowly.",
    413: "The texts are too long, or too many.",
    415: "The body is not application/json.",
    429: "The queue is full. Try again after the seconds in Retry-After.",
    500: "The pipeline failed.",
    503: "It took too long, or the server stops or starts a worker anew.",
}


def described(
    layers: Sequence[str], max_length: int, max_texts: int, drawn: int, most_trees: int
) -> dict[str, Any]:
    """Return the description.

    layers: those of `as_dict`. max_length, drawn: the most characters of a request for /parse and
    for /draw. max_texts: the most texts. most_trees: the most of the best trees of a sentence.
    """
    text = {"type": "string", "maxLength": max_length}
    layer = {"type": "array", "items": {"enum": list(layers)}}
    one = {"text": text | {"examples": ["She ate the pizza with a fork."]}, "layers": layer}
    several = {"texts": {"type": "array", "items": text, "maxItems": max_texts}, "layers": layer}
    trees = {"type": "integer", "minimum": 0, "maximum": most_trees, "default": 0}
    drawing = {"text": text | {"maxLength": drawn}, "trees": trees}
    parsed = "The layers of the text, or {docs: a list of them}, as spacy_structlearn.as_dict."
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "spacy-structlearn",
            "version": __version__,
            "description": "Sentences, tags, trees, chunks, attachments, roles and dependencies.",
        },
        "paths": {
            "/parse": _post(
                f"Parse a text or several, of {max_length:,} characters together",
                [_object(one, "text"), _object(several, "texts")],
                parsed,
            ),
            "/draw": _post(
                f"Draw the layers of a text of up to {drawn:,} characters",
                [_object(drawing, "text")],
                "html: the page of `structlearn render`; data: the layers; conllu: CoNLL-U; "
                "sentences: of each its text, brackets, svg, latex, and the best trees.",
            ),
            "/health": {
                "get": {
                    "summary": "Say whether the server works",
                    "responses": {
                        "200": {"description": "The pipeline, its version, workers, jobs waiting."},
                        "503": {"description": "No worker is ready."},
                    },
                }
            },
        },
    }


def _object(fields: dict[str, Any], required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": [required],
        "additionalProperties": False,
    }


def _post(summary: str, schemas: list[dict[str, Any]], answer: str) -> dict[str, Any]:
    responses = {"200": answer} | {f"{status}": text for status, text in ERRORS.items()}
    return {
        "post": {
            "summary": summary,
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"oneOf": schemas}}},
            },
            "responses": {
                status: {"description": text, "content": {"application/json": {}}}
                for status, text in responses.items()
            },
        }
    }


def as_page(description: dict[str, Any]) -> str:
    """Return the description as a page of HTML."""
    parts = []
    for path, methods in description["paths"].items():
        for method, call in methods.items():
            parts.append(
                f"<h2><code>{method.upper()} {path}</code></h2>\n<p>{call['summary']}.</p>"
            )
            if "requestBody" in call:
                (schema,) = call["requestBody"]["content"].values()
                for own in schema["schema"]["oneOf"]:
                    shown = escape(json.dumps(own["properties"], indent=2))
                    parts.append(f'<pre tabindex="0" aria-label="Fields">{shown}</pre>')
            rows = "\n".join(
                f"<dt>{status}</dt><dd>{escape(own['description'])}</dd>"
                for status, own in call["responses"].items()
            )
            parts.append(f"<dl>\n{rows}\n</dl>")
    body = "\n".join(parts)
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>The API</title>
<link rel="stylesheet" href="page.css">
</head>
<body>
<main>
<h1>The API</h1>
<p>Errors are JSON with the field <code>error</code>. <a href="openapi.json">OpenAPI</a> ·
<a href=".">Try it</a></p>
{body}
</main>
</body>
</html>
"""
