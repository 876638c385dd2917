"""The laboratory in a browser: a server of pages and of the JSON interface that they use."""
