"""Which files here hold no tests: the site's machinery, and what it builds."""

collect_ignore_glob = ["conf.py", "_build/*", "_extensions/*", "api/generated/*", "gallery/*", "pictures/*"]
