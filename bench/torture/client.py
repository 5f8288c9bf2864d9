"""A client of the HTTP API that tries one server after the other."""

import http.client
import json
import random
import time

# Longer than a server needs for a request that waits for a database without an answer.
TIMEOUT_SECONDS = 15
# Wait before a request is repeated.
RETRY_SECONDS = 0.2
PAGE = 500


class NoAnswer(Exception):
    """No response: the request may or may not have taken effect."""


class Client:
    """Sends requests to any of the servers. `addresses` is a list of (host, port)."""

    def __init__(self, addresses):
        self.addresses = addresses
        self.random = random.Random()

    def once(self, method, path, body=None, headers=None):
        """Sends one request to a random server. Returns the status and the JSON body."""
        host, port = self.random.choice(self.addresses)
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
        all_headers = {"Content-Type": "application/json", **(headers or {})}
        data = None if body is None else json.dumps(body)
        try:
            connection.request(method, "/api/v1" + path, data, all_headers)
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(str(error)) from error
        finally:
            connection.close()

    def until_answered(self, method, path, body=None, headers=None, deadline=lambda: None):
        """Repeats a request until a server gives a final answer. Returns the status, the body and
        the number of requests, or raises `NoAnswer` at the deadline. `deadline` is called after
        each try, because the end of a run is not known when a request starts."""
        tries = 0
        while True:
            tries += 1
            try:
                status, answer = self.once(method, path, body, headers)
                if status < 500:
                    return status, answer, tries
            except NoAnswer:
                pass
            end = deadline()
            if end is not None and time.monotonic() >= end:
                raise NoAnswer(f"{method} {path}: no answer before the deadline")
            time.sleep(RETRY_SECONDS)

    def read(self, path, deadline):
        """Reads one object."""
        status, answer, _ = self.until_answered("GET", path, deadline=lambda: deadline)
        if status != 200:
            raise RuntimeError(f"GET {path}: {status} {answer}")
        return answer

    def pages(self, path, deadline):
        """Reads all entries of a list."""
        separator = "&" if "?" in path else "?"
        cursor = ""
        while True:
            page = self.read(f"{path}{separator}limit={PAGE}{cursor}", deadline)
            yield from page["items"]
            if not page["next_cursor"]:
                return
            cursor = f"&cursor={page['next_cursor']}"
