"""What a study found as one document, written as HTML, Markdown, CSV, figures and for terminals."""
