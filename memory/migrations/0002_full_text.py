"""The full-text table, which the ORM does not know."""

from django.db import migrations

from memory import retrieval


def create(apps, schema_editor):
    retrieval.create()


class Migration(migrations.Migration):
    dependencies = [("memory", "0001_initial")]
    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
