"""Makes the page at /docs, Sources/CampanileServer/web/reference.html, of openapi.yaml. It runs no script.

With --check this writes nothing, and fails if the file isn't what it would write."""
import hashlib
import html
import json
import re
import sys
import urllib.parse

import yaml

from e2e import ROOT
from e2e.contract.openapi_document import METHODS, resolve

WEB = ROOT / "Sources/CampanileServer/web"
PAGE = WEB / "reference.html"
DOCUMENT = yaml.safe_load((ROOT / "openapi.yaml").read_text(encoding="utf-8"))
COMPONENTS = DOCUMENT["components"]
# Method, path, what the path's operations have in common, and the operation.
OPERATIONS = [(method.upper(), path, item.get("parameters", []), item[method])
              for path, item in DOCUMENT["paths"].items() for method in item if method in METHODS]
PLACES = {f"{method} {path}": operation["operationId"] for method, path, _, operation in OPERATIONS}
# What is shown of JSON Schema; the page would leave out any other keyword.
KEYWORDS = {
    "additionalProperties", "allOf", "const", "default", "description", "enum", "format", "items", "maxItems", "maxLength",
    "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "not", "oneOf", "pattern", "properties", "propertyNames",
    "required", "type", "x-max-bytes", "x-pattern",
}
# The shell's variable with the credential.
VARIABLES = {"userToken": "TOKEN", "producerKey": "KEY", "operateKey": "OPERATE_KEY", "broadcastKey": "BROADCAST_KEY"}
UPGRADE = ("-N -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13'"
           " -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==' -H 'Sec-WebSocket-Protocol: actioncable-v1-json'")
LINE_CHARACTERS = 100


def resolved(node):
    return resolve(node, DOCUMENT)


def reference(node):
    """The name behind a $ref."""
    return node["$ref"].split("/")[-1] if isinstance(node, dict) and "$ref" in node else None


# --- texts

def escaped(text):
    return html.escape(text, quote=False).replace('"', "&quot;")


def code(value):
    return f"<code>{escaped(value if isinstance(value, str) else written(value))}</code>"


def written(value, spaces=False):
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": ") if spaces else (",", ":"))


def readable(value, indentation=""):
    """JSON for people: what fits on a line stands on one."""
    line = written(value, spaces=True)
    if len(indentation + line) <= LINE_CHARACTERS or not value or not isinstance(value, dict | list):
        return line
    inner = indentation + "  "
    if isinstance(value, list):
        lines, (first, last) = [readable(element, inner) for element in value], "[]"
    else:
        lines, (first, last) = [f"{written(key)}: {readable(member, inner)}" for key, member in value.items()], "{}"
    return f"{first}\n{inner}" + f",\n{inner}".join(lines) + f"\n{indentation}{last}"


def inline(text):
    """Of CommonMark the descriptions use paragraphs, `code` and **strong** text. What `code` names an operation is a link to it."""
    def marked(match):
        if match[1] is None:
            return f"<strong>{match[2]}</strong>"
        words = f"<code>{match[1]}</code>"
        return f'<a href="#{PLACES[match[1]]}">{words}</a>' if match[1] in PLACES else words
    return re.sub(r"`([^`]*)`|\*\*(.*?)\*\*", marked, escaped(" ".join(text.split())))


def about(node):
    return "".join(f"<p>{inline(part)}</p>\n" for part in node.get("description", "").split("\n\n") if part)


# --- schemas

def type_of(schema):
    """In a word or a link: `array of Notification`, `string or null`."""
    if name := reference(schema):
        return f'<a href="#schema-{name}">{name}</a>'
    if "const" in schema:
        return code(schema["const"])
    for key, word in ("oneOf", " or "), ("allOf", " and "):
        if key in schema:
            return word.join(map(type_of, schema[key]))
    names = schema.get("type", [])
    inner = {"array": schema.get("items"), "object": schema.get("additionalProperties")}
    return " or ".join(f"{name} of {type_of(inner[name])}" if isinstance(inner.get(name), dict) else name
                       for name in ([names] if isinstance(names, str) else names))


def span(schema, least, most, unit):
    if least in schema and most in schema:
        return [f"{code(schema[least])} to {code(schema[most])}{unit}"]
    if least in schema:
        return [f"at least {code(schema[least])}{unit[:-1] if schema[least] == 1 else unit}"]
    return [f"at most {code(schema[most])}{unit}"] if most in schema else []


def rules(schema):
    if unknown := schema.keys() - KEYWORDS:
        sys.exit(f"reference_page: openapi.yaml uses {', '.join(sorted(unknown))} in a schema, which the page doesn't show yet")
    found = ["one of " + ", ".join(map(code, schema["enum"]))] if "enum" in schema else []
    found += span(schema, "minLength", "" if "x-max-bytes" in schema else "maxLength", " characters")
    found += span(schema, "", "x-max-bytes", " bytes") + span(schema, "minimum", "maximum", "")
    found += span(schema, "minItems", "maxItems", " elements") + span(schema, "minProperties", "maxProperties", " keys")
    for key, word in ("pattern", "pattern"), ("x-pattern", "pattern"), ("format", "format"), ("default", "default"):
        if key in schema:
            found.append(f"{word} {code(schema[key])}")
    for key, word in ("not", "not"), ("propertyNames", "keys"):
        if key in schema:
            found.append(f"{word}: {', '.join(rules(schema[key]))}")
    if isinstance(further := schema.get("additionalProperties"), bool):
        found.append("further members are allowed" if further else "no other members")
    return found


def details(schema, is_part=False):
    """Everything that the type doesn't say. The rules of a schema's choices and elements name its type."""
    if reference(schema):
        return ""
    text, found = about(schema), rules(schema)
    if found:
        text += f'<p class="rules">{type_of(schema) + ": " if is_part else ""}{"; ".join(found)}</p>\n'
    if members := schema.get("properties"):
        required = schema.get("required", [])
        text += "<dl>\n" + "".join(member(name, one, name in required) for name, one in members.items()) + "</dl>\n"
    inner = [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    return text + "".join(details(part, is_part=True) for part in inner + schema.get("oneOf", []) + schema.get("allOf", []))


def member(name, schema, is_required, place="", text=""):
    required = " <em>required</em>" if is_required else ""
    return (f'<dt><code>{escaped(name)}</code> <span class="type">{type_of(schema)}{place}</span>{required}</dt>\n'
            f"<dd>{text}{details(schema)}</dd>\n")


# --- operations

def link(method, path, operation):
    return (f'<a href="#{operation["operationId"]}"><span class="method {method.lower()}">{method}</span> '
            f"<code>{escaped(path)}</code></a>")


def examples(media):
    return [{"value": media["example"]}] if "example" in media else [*map(resolved, media.get("examples", {}).values())]


def figure(example):
    caption = f"<figcaption>{inline(example['summary'])}</figcaption>" if "summary" in example else ""
    value = example["value"]
    return f"<figure>{caption}<pre><code>{escaped(value if isinstance(value, str) else readable(value))}</code></pre></figure>\n"


def content(body):
    return "".join(
        f'<p><code>{name}</code>: <span class="type">{type_of(media["schema"])}</span></p>\n'
        f"{details(media['schema'])}{''.join(map(figure, examples(media)))}" for name, media in body.get("content", {}).items())


def headers_of(response):
    """Links to those that are described once, and the others' descriptions."""
    found = [f'<a href="#header-{reference(header)}"><code>{name}</code></a>' if reference(header)
             else f"<code>{name}</code> ({inline(header['description'])})" for name, header in response.get("headers", {}).items()]
    return f'<p class="headers">Headers: {", ".join(found)}</p>\n' if found else ""


def codes(response):
    return " ".join(map(code, response["x-problem-codes"]))


def answer(response):
    targets = {operation["operationId"]: link(method, path, operation) for method, path, _, operation in OPERATIONS}
    then = "".join(f"<li>{targets[one['operationId']]} {inline(one['description'])}</li>\n"
                   for one in map(resolved, response.get("links", {}).values()))
    return about(response) + content(response) + headers_of(response) + (f"<p>Then:</p>\n<ul>\n{then}</ul>\n" if then else "")


def answers(operation):
    rows, problems = "", ""
    for status, response in operation["responses"].items():
        name, response = reference(response), resolved(response)
        if name and "x-problem-codes" in response:
            problems += f'<li><a href="#problem-{name}">{status}</a> {codes(response)}</li>\n'
        else:
            rows += f"<dt><strong>{status}</strong></dt>\n<dd>{answer(response)}</dd>\n"
    if problems:
        rows += f'<dt>Problems</dt>\n<dd><ul class="problems">\n{problems}</ul></dd>\n'
    return f'<h4>Answers</h4>\n<dl class="answers">\n{rows}</dl>\n'


def credential(operation):
    return " or ".join(f'<a href="#credential-{next(iter(one))}">{next(iter(one))}</a>' if one else "none"
                       for one in operation.get("security", [])) or "none"


def curl(method, path, parameters, operation):
    """A line that calls it, with the first example of its body. The credentials are shell variables."""
    bodies = [examples(media) for media in operation.get("requestBody", {}).get("content", {}).values()]
    words, answered = ["curl"], operation["responses"]
    if "text/event-stream" in resolved(answered.get("200", {})).get("content", {}):
        words.append("-N")
    if "101" in answered:
        words.append(UPGRADE)
    if method != ("POST" if bodies else "GET"):
        words.append(f"-X {method}")
    for parameter in parameters:
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", parameter["example"])
    address = DOCUMENT["servers"][0]["url"] + path
    query = urllib.parse.urlencode({one["name"]: one["example"] for one in parameters if one["in"] == "query" and one.get("required")})
    words.append(f"'{address}?{query}'" if query else address)
    schemes = [scheme for choice in operation.get("security", []) for scheme in choice]
    if schemes and schemes[0] in VARIABLES:
        words.append(f'-H "Authorization: Bearer ${VARIABLES[schemes[0]]}"')
    if bodies:
        body = written(bodies[0][0]["value"]).replace("'", "'\\''")
        words += ["-H 'Content-Type: application/json'", f"-d '{body}'"]
    return " ".join(words)


def section(method, path, shared, operation):
    parameters = [*map(resolved, shared + operation.get("parameters", []))]
    text = (f'<section class="operation" id="{operation["operationId"]}">\n<h3>{link(method, path, operation)}</h3>\n'
            f'<p class="summary">{inline(operation["summary"])}</p>\n{about(operation)}'
            f'<p class="credential">Credential: {credential(operation)}</p>\n'
            f"<pre><code>{escaped(curl(method, path, parameters, operation))}</code></pre>\n")
    if parameters:
        rows = [member(one["name"], one["schema"], one.get("required"), f", in the {one['in']}", about(one)) for one in parameters]
        text += f"<h4>Parameters</h4>\n<dl>\n{''.join(rows)}</dl>\n"
    if body := operation.get("requestBody"):
        text += "<h4>Body</h4>\n" + ("" if body.get("required") else "<p>It may be left out.</p>\n") + content(body)
    return text + answers(operation) + "</section>\n"


# --- the page

def contents():
    groups = ""
    for tag in DOCUMENT["tags"]:
        links = "".join(f"<li>{link(method, path, one)}</li>\n" for method, path, _, one in OPERATIONS if one["tags"][0] == tag["name"])
        groups += f'<li><a href="#tag-{tag["name"]}">{tag["name"]}</a>\n<ul>\n{links}</ul></li>\n'
    return f"""\
<nav aria-label="Contents">
<ul>
<li><a href="#credentials">credentials</a></li>
{groups}<li><a href="#problems">problems</a></li>
<li><a href="#headers">headers</a></li>
<li><a href="#schemas">schemas</a></li>
</ul>
</nav>
"""


def credentials():
    rows = ""
    for name, scheme in COMPONENTS["securitySchemes"].items():
        place = f"{scheme['in']} <code>{escaped(scheme['name'])}</code>" if "in" in scheme else "<code>Authorization: Bearer …</code>"
        rows += (f'<dt id="credential-{name}"><code>{name}</code> <span class="type">{place}</span></dt>\n'
                 f"<dd>{about(scheme)}</dd>\n")
    return f'<section id="credentials">\n<h2>Credentials</h2>\n<dl>\n{rows}</dl>\n</section>\n'


def tagged(tag):
    parts = "".join(section(*one) for one in OPERATIONS if one[3]["tags"][0] == tag["name"])
    return f'<section id="tag-{tag["name"]}">\n<h2>{tag["name"].capitalize()}</h2>\n{about(tag)}{parts}</section>\n'


def problems():
    rows = ""
    for name, response in COMPONENTS["responses"].items():
        if "x-problem-codes" in response:
            media = next(iter(response["content"].values()))
            shown = [f"<pre><code>{escaped(readable(one['value']))}</code></pre>\n" for one in examples(media)]
            rows += (f'<dt id="problem-{name}">{name} {codes(response)}</dt>\n'
                     f"<dd>{about(response)}{headers_of(response)}{''.join(shown)}</dd>\n")
    return ('<section id="problems">\n<h2>Problems</h2>\n<p><code>application/problem+json</code>: '
            f'<a href="#schema-Problem">Problem</a>, with one of these codes.</p>\n<dl>\n{rows}</dl>\n</section>\n')


def headers():
    """Each by the name of its field, which several descriptions may share."""
    responses = [one for _, _, _, operation in OPERATIONS for one in operation["responses"].values()]
    fields = {}
    for response in map(resolved, responses + [*COMPONENTS["responses"].values()]):
        for field, header in response.get("headers", {}).items():
            fields.setdefault(reference(header), field)
    rows = "".join(f'<dt id="header-{name}"><code>{fields[name]}</code> <span class="type">{type_of(header["schema"])}</span></dt>\n'
                   f"<dd>{about(header)}{details(header['schema'])}</dd>\n" for name, header in COMPONENTS["headers"].items())
    return f'<section id="headers">\n<h2>Headers</h2>\n<dl>\n{rows}</dl>\n</section>\n'


def schemas():
    parts = "".join(f'<section class="schema" id="schema-{name}">\n<h3><a href="#schema-{name}">{name}</a> '
                    f'<span class="type">{type_of(schema)}</span></h3>\n{details(schema)}</section>\n'
                    for name, schema in COMPONENTS["schemas"].items())
    return f'<section id="schemas">\n<h2>Schemas</h2>\n{parts}</section>\n'


def asset(name):
    """The address of a file's present version, as AssetResource.swift makes it."""
    stem, ending = name.split(".")
    return f"/assets/{stem}-{hashlib.sha256((WEB / name).read_bytes()).hexdigest()[:12]}.{ending}"


def page():
    info = DOCUMENT["info"]
    title = escaped(f"{info['title']} {info['version']}")
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}: the API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="{asset('campanile.svg')}">
<link rel="stylesheet" href="{asset('reference.css')}">
</head>
<body>
<a class="skip" href="#top">To the text</a>
{contents()}<main id="top">
<h1>{title}</h1>
<p class="summary">{inline(info['summary'])}</p>
{about(info)}<p>For programs: <a href="/openapi.yaml">openapi.yaml</a>.</p>
{credentials()}{''.join(map(tagged, DOCUMENT['tags']))}{problems()}{headers()}{schemas()}</main>
</body>
</html>
"""


def main():
    made, name = page().encode(), PAGE.relative_to(ROOT)
    if sys.argv[1:] != ["--check"]:
        PAGE.write_bytes(made)
    elif not PAGE.is_file() or PAGE.read_bytes() != made:
        sys.exit(f'{name} is not what openapi.yaml makes today: "$(e2e/venv.sh)" -m e2e.contract.reference_page makes it anew')
    print(f"reference_page: {name} has {len(OPERATIONS)} operations")


if __name__ == "__main__":
    main()
