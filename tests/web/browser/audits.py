"""What everybody has to be able to use: pages are audited by the rules of axe."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

_CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}


def serious_findings(page: Page) -> list[dict[str, object]]:
    """Return what is serious or critical: by all rules in light, by that of colours in dark."""
    found = []
    for theme, options in (("light", None), ("dark", _CONTRAST)):
        page.emulate_media(color_scheme=theme)
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        found += Axe().run(page, options=options).response["violations"]
    return [each for each in found if each["impact"] in ("serious", "critical")]
