"""Asks one server over HTTP, a request at a time, for a C++ program that has no client of its own.

Descriptor 3 is a socket to hone (base/process/python_process.h). The first line that comes is the settings, as JSON: url, seconds, key_env, most,
most_line. Each further line is a request, {"method", "path", "body"}, whose body is JSON or null. Answers are lines of JSON: {"status", "text"}, or
{"failed": a sentence, "absent": nobody listens}, without the key; "repeats_key" says that a text has it all the same. An answer has at most
`most` bytes. No redirect is followed, and no proxy is asked for this machine. A request is sent again after status 429, and after a connection
that the server broke: at most TRIES times, and within the seconds of one request.
"""
import sys

sys.path[:] = [folder for folder in sys.path if folder not in ("", ".")]  # a file of the working folder is never imported

import http.client  # noqa: E402
import ipaddress  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import socket  # noqa: E402
import time  # noqa: E402
import urllib.error  # noqa: E402
import urllib.parse  # noqa: E402
import urllib.request  # noqa: E402

TRIES, LONGEST_PAUSE = 5, 8  # of one request, and seconds between two of them
SHORTEST_KEY = 8  # a shorter word may stand in any message, and keys that are made up are such words


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments):
        return None


def is_here(host):
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def body_of(response, until, most):
    """At most so many bytes and one more; a server that sends a byte now and then is late all the same."""
    parts, count = [], 0
    while count <= most:
        part = response.read1(min(1 << 16, most + 1 - count))
        if not part:
            break
        parts.append(part)
        count += len(part)
        if time.monotonic() > until:
            raise TimeoutError
    if count <= most and response.length:  # read1 does not tell it
        raise http.client.IncompleteRead(b"")
    return b"".join(parts)


def pause_of(retry_after, tries):
    """Seconds until the next try: what the server asks for (dates are not read), else 0.5, 1, 2, ..; None: longer than a run should stand."""
    if retry_after is None or not retry_after.strip().isdecimal():
        return min(0.5 * 2**tries, LONGEST_PAUSE)
    seconds = int(retry_after.strip()[:9])
    return seconds if seconds <= LONGEST_PAUSE else None


def without_escapes(text):
    """What a string of JSON says, whose letters may be written as \\u0061 and whose / as \\/."""
    return re.sub(r'\\(u[0-9a-fA-F]{4}|["\\/])', lambda found: chr(int(found[1][1:], 16)) if len(found[1]) == 5 else found[1], text)


class Client:
    def __init__(self, settings):
        self.url, self.seconds, self.most = settings["url"], settings["seconds"], settings["most"]
        self.headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "hone"}
        self.key = key = os.environ.get(settings["key_env"], "").strip()
        self.fault = "" if key.isascii() and key.isprintable() else f"the key in {settings['key_env']} has characters that no key may have"
        if key and not self.fault:
            self.headers["Authorization"] = "Bearer " + key
        proxies = [urllib.request.ProxyHandler({})] if is_here(urllib.parse.urlsplit(self.url).hostname or "") else []
        self.opener = urllib.request.build_opener(NoRedirect, *proxies)

    def ask(self, call):
        if self.fault:  # http.client's own message would show the key
            return {"failed": self.fault, "absent": False}
        until = time.monotonic() + self.seconds
        for tries in range(TRIES):
            answer, pause = self.once(call, until, tries)
            if pause is None or tries + 1 == TRIES or time.monotonic() + pause >= until:
                break
            time.sleep(pause)
        return self.without_key(answer)

    def shows_key(self, text):
        return len(self.key) >= SHORTEST_KEY and (self.key in text or self.key in without_escapes(text))

    def redacted(self, text):
        if not self.shows_key(text):
            return text
        text = text.replace(self.key, "***")
        return without_escapes(text).replace(self.key, "***") if self.shows_key(text) else text

    def without_key(self, answer):
        """Some servers, and pages of proxies, repeat the headers that they got."""
        if answer.get("status") == 200:  # its JSON may be what was asked for
            return {**answer, "repeats_key": True} if self.shows_key(answer["text"]) else answer
        return {name: self.redacted(value) if isinstance(value, str) else value for name, value in answer.items()}

    def once(self, call, until, tries):
        """The answer, and the seconds after which it is worth to ask again; None: it is not."""
        data = None if call["body"] is None else json.dumps(call["body"]).encode()
        request = urllib.request.Request(self.url + call["path"], data=data, headers=self.headers, method=call["method"])
        pause = None
        try:
            try:
                with self.opener.open(request, timeout=max(0.1, until - time.monotonic())) as response:
                    status, body = response.status, body_of(response, until, self.most)
            except urllib.error.HTTPError as error:
                with error:
                    status, body = error.code, error.read(4000)
                    if status == 429:
                        pause = pause_of(error.headers.get("Retry-After"), tries)
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, (TimeoutError, socket.timeout)):
                return {"failed": f"no whole answer within {self.seconds:g} s", "absent": False}, None
            absent = isinstance(reason, (ConnectionRefusedError, socket.gaierror))
            broken = isinstance(reason, (ConnectionResetError, ConnectionAbortedError, BrokenPipeError, http.client.IncompleteRead))
            said = self.redacted(" ".join(str(reason).split()))  # before it is cut
            failed = {"failed": f"{type(reason).__name__}: {said[:200]}", "absent": absent}
            return failed, pause_of(None, tries) if broken else None
        if len(body) > self.most:
            return {"failed": f"an answer of more than {self.most:,} bytes", "absent": False}, None
        return {"status": status, "text": body.decode("utf-8", "replace")}, pause


def main():
    pipe = socket.socket(fileno=3)
    lines = pipe.makefile("r", encoding="utf-8", errors="replace")
    settings = json.loads(lines.readline())
    client = Client(settings)
    for line in lines:
        answer = json.dumps(client.ask(json.loads(line)), ensure_ascii=False).encode("utf-8", "replace")
        if len(answer) > settings["most_line"]:  # of control characters, which are longer in JSON
            answer = json.dumps({"failed": "an answer of control characters", "absent": False}).encode()
        pipe.sendall(answer + b"\n")


main()
