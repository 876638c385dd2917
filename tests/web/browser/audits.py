"""What everybody has to be able to use: pages are audited by the rules of axe."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect


def serious_findings(page: Page) -> list[dict[str, object]]:
    """Return what axe finds serious or critical, in light and in dark."""
    found = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        found += Axe().run(page).response["violations"]
    return [each for each in found if each["impact"] in ("serious", "critical")]
