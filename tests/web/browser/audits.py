"""Audits of pages: accessibility (with axe) and phone width."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from browser.served import PHONE


def serious_findings(page: Page) -> list[dict[str, object]]:
    """Return axe's serious and critical violations in the light and dark themes."""
    violations = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        violations += Axe().run(page).response["violations"]
    return [each for each in violations if each["impact"] in ("serious", "critical")]


def fits_phone(page: Page) -> bool:
    """Return True if a page with the width of a phone does not scroll sideways."""
    width: int = page.evaluate("document.documentElement.scrollWidth")
    return width <= PHONE["width"]
