"""Audits of accessibility by the rules of axe."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect


def serious_findings(page: Page) -> list[dict[str, object]]:
    """Return the serious and critical findings of axe, in the light and the dark theme."""
    found = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        found += Axe().run(page).response["violations"]
    return [each for each in found if each["impact"] in ("serious", "critical")]
