"""Programs that ask a server: `constrained serve` in another terminal starts one."""

import os

URL = os.environ.get("CONSTRAINED_URL", "http://127.0.0.1:8080")
