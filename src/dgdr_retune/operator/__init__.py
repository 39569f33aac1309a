"""The operator: leader election around the controllers, the webhook, health and metrics."""
