"""A custom resource that is about nothing, and what a client does with its objects."""

import json
from collections.abc import Mapping
from typing import Any

import httpx
from attrs import frozen

Json = Any

GROUP = "test.example.com"
PLURAL = "widgets"
MERGE = "application/merge-patch+json"
OPERATIONS = "application/json-patch+json"

DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {
        "group": GROUP,
        "names": {"kind": "Widget", "listKind": "WidgetList", "plural": PLURAL, "singular": "widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "format": "int32", "minimum": 1, "default": 3},
                                    "name": {"type": "string", "pattern": "^[^x]*$", "maxLength": 20},
                                    "since": {"type": "string", "format": "date-time"},
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["id"],
                                        "maxItems": 5,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "properties": {
                                                "id": {"type": "string", "maxLength": 10},
                                                "weight": {"type": "number", "minimum": 0, "nullable": True},
                                            },
                                            "x-kubernetes-validations": [
                                                {
                                                    "rule": "!has(oldSelf.weight) || self.weight >= oldSelf.weight",
                                                    "message": "a part does not lose weight",
                                                }
                                            ],
                                        },
                                    },
                                    "tags": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "set",
                                        "maxItems": 5,
                                        "items": {"type": "string", "maxLength": 10},
                                    },
                                    "limits": {
                                        "type": "object",
                                        "maxProperties": 2,
                                        "additionalProperties": {"x-kubernetes-int-or-string": True},
                                    },
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {"ready": {"type": "boolean"}, "seen": {"type": "integer"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}


def widget(name: str = "w", spec: Json = None, **metadata: Any) -> Json:
    """A widget."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        "spec": {} if spec is None else spec,
    }


@frozen
class Widgets:
    """The widgets of one namespace of one API server. Every call gives the response as it is."""

    client: httpx.Client
    namespace: str

    def url(self, *parts: str) -> str:
        """The path of all widgets, of one, or of its status."""
        return "/".join([f"/apis/{GROUP}/v1/namespaces/{self.namespace}/{PLURAL}", *parts])

    def create(self, value: Json, **query: str) -> httpx.Response:
        """POST, of an object or of a JSON text."""
        text = value if isinstance(value, str) else json.dumps(value)
        return self.client.post(self.url(), params=query, content=text)

    def made(self, value: Json) -> Json:
        """POST that must succeed."""
        response = self.create(value)
        assert response.status_code == 201, response.text
        return response.json()

    def get(self, name: str = "w") -> httpx.Response:
        """GET of one."""
        return self.client.get(self.url(name))

    def page(self, **query: str) -> httpx.Response:
        """GET of all."""
        return self.client.get(self.url(), params=query)

    def replace(self, value: Json, *part: str, **query: str) -> httpx.Response:
        """PUT."""
        return self.client.put(self.url(value["metadata"]["name"], *part), params=query, content=json.dumps(value))

    def patch(self, patch: Json, *part: str, name: str = "w", kind: str = MERGE, **query: str) -> httpx.Response:
        """PATCH."""
        headers = {"Content-Type": kind}
        return self.client.patch(self.url(name, *part), params=query, content=json.dumps(patch), headers=headers)

    def delete(self, name: str = "w", options: Json = None) -> httpx.Response:
        """DELETE."""
        body = json.dumps(options or {})
        return self.client.request("DELETE", self.url(name), content=body)

    def watch(self, **query: str) -> list[Json]:
        """The events of a watch that lasts for a second at most."""
        query = {"watch": "true", "timeoutSeconds": "1", **query}
        response = self.client.get(self.url(), params=query)
        assert response.status_code == 200, response.text
        return [json.loads(line) for line in response.text.splitlines()]


def names(listed: Mapping[str, Json]) -> list[str]:
    """The names of the items of a list."""
    return [item["metadata"]["name"] for item in listed["items"]]
