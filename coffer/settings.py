"""Django's settings; every value that a person may set comes through ``coffer.env``."""

from importlib.metadata import distribution
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from coffer import auth, env, logs, paths
from coffer.errors import ConfigInvalid, StorageFailed

try:
    LOG_LEVEL = env.choice("COFFER_LOG_LEVEL", ("DEBUG", "INFO", "WARNING", "ERROR"))
    SECRET_KEY = auth.secret_key()
    HOME = paths.home()
except (ConfigInvalid, StorageFailed) as error:
    raise ImproperlyConfigured(error.message) from error

PROJECT = Path(__file__).resolve().parent
# Its files alone: as an app it would be imported, with all of pydantic, by every command line.
NINJA = Path(str(distribution("django-ninja").locate_file("ninja")))
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]  # the outer guard of coffer.asgi has checked them already

INSTALLED_APPS = [
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_q",
    "coffer",
    "memory",
    "agents",
    "gateway",
    "transcripts",
]
MIDDLEWARE = [
    "coffer.middleware.Headers",
    "django.middleware.security.SecurityMiddleware",
    "coffer.middleware.Static",
    "coffer.signin.PortCookies",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "coffer.middleware.Heal",
    "coffer.signin.SignedIn",
    "coffer.pages.Problems",
]
ROOT_URLCONF = "coffer.urls"
ASGI_APPLICATION = "coffer.asgi.application"
APPEND_SLASH = False
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        # The checkout's folder; in an installed wheel the same files lie inside the package.
        "DIRS": [PROJECT.parent / "templates", PROJECT / "templates", NINJA / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "coffer.pages.frame",
            ]
        },
    }
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(paths.database()),
        "CONN_MAX_AGE": 0,
        "OPTIONS": {
            "timeout": 5,
            # IMMEDIATE: a transaction that reads and then writes must not lose its lock race half-way.
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA secure_delete=ON;",
        },
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024

STATIC_URL = "/static/"
STATICFILES_DIRS = [NINJA / "static"]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
WHITENOISE_ALLOW_ALL_ORIGINS = False

SESSION_COOKIE_NAME = "coffer-session"  # both names get the port behind them, see coffer.signin
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Strict"
SESSION_EXPIRE_AT_BROWSER_CLOSE = True
CSRF_COOKIE_NAME = "coffer-csrf"
CSRF_COOKIE_AGE = None  # until the browser closes
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Strict"
CSRF_FAILURE_VIEW = "coffer.pages.csrf_failed"
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
# Not in the session, which is a row of the database: an answer must not fail because that is busy.
MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"

Q_CLUSTER = {
    "name": "coffer",
    "orm": "default",
    "workers": 1,
    "poll": 0.5,
    "timeout": 1800,
    "retry": 3600,
    "max_attempts": 1,
    "ack_failures": True,
    "catch_up": False,
    "save_limit": 100,
    "label": "Tasks",
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    # What libraries tell below a warning carries content: SQL with its values, a request's address with its query.
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        **{name: {"level": LOG_LEVEL} for name in logs.OURS},
        "django": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
    },
}
