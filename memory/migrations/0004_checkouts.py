import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0003_passes")]

    operations = [
        migrations.RemoveField(model_name="store", name="former_roots"),
        migrations.CreateModel(
            name="Checkout",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("store", models.CharField(db_index=True, max_length=40)),
                ("root", models.CharField(max_length=4096)),
                ("remote", models.CharField(blank=True, max_length=500)),
                ("mark", models.CharField(max_length=100)),
                ("born", models.BigIntegerField(db_index=True, default=0)),
                ("roots", models.JSONField(default=list)),
                ("head", models.CharField(blank=True, max_length=64)),
                ("since", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("root", "remote", "mark"), name="one_row_per_checkout")],
            },
        ),
        migrations.CreateModel(
            name="Verdict",
            fields=[
                ("key", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("same_project", models.BooleanField()),
                ("confidence", models.CharField(max_length=20)),
                ("reason", models.TextField()),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
    ]
