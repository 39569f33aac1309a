"""Admission webhooks: what `api` says about an object, over HTTPS."""

from dgdr_retune.admission._certificate import Certificate
from dgdr_retune.admission._manifests import webhook_configurations
from dgdr_retune.admission._review import Review, ReviewError, mutated, read_review, validated
from dgdr_retune.admission._server import MAX_BODY_BYTES, WebhookConfiguration, WebhookServer, application

__all__ = [
    "MAX_BODY_BYTES",
    "Certificate",
    "Review",
    "ReviewError",
    "WebhookConfiguration",
    "WebhookServer",
    "application",
    "mutated",
    "read_review",
    "validated",
    "webhook_configurations",
]
