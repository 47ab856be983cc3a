"""``manage.py docs``: write the generated parts of docs/ anew (for contributors)."""

from typing import Any

from django.core.management.base import BaseCommand

from coffer.management import generated


class Command(BaseCommand):
    help = "Write the generated parts of the documentation anew"

    def handle(self, **_: Any) -> None:
        for page in generated.pages():
            text = page.read_text(encoding="utf-8")
            if (fresh := generated.refreshed(text)) != text:
                page.write_text(fresh, encoding="utf-8")
                self.stdout.write(f"{page.name} brought up to date")
