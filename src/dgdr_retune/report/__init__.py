"""One self-contained HTML page that shows a decision and what it rests on."""
