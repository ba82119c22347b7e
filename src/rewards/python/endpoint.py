# The part of a reward worker that asks an endpoint over HTTP (http_reward.h). It is put before worker.py, whose names it uses.
# ---- an endpoint as a function

MOST_ANSWER, MOST_PER_SAMPLE = 4 << 20, 4096  # bytes of an answer: a parsed one takes 30 times as much
BUSY = (408, 425, 429, 502, 503, 504)
WRONG_ADDRESS = (401, 402, 403, 404, 405, 406, 407, 410, 411, 415, 426)


class HttpAnswer(Exception):
    """An answer that costs the samples it was about; unless `whole`, each may be asked for alone."""

    def __init__(self, what, whole=True):
        super().__init__(what)
        self.whole = whole


def from_environment(text):
    """`text` with the values of its ${NAME}."""
    import re

    def value(reference):
        name = reference[1]
        if not os.environ.get(name):
            raise Fault(f"the environment variable {name}, which the address refers to", "it is not set", "",
                        f"export {name}=..., then start hone again")
        if len(os.environ[name]) > 3:
            SECRETS[os.environ[name]] = reference[0]
        return os.environ[name]

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", value, text)


def is_loopback(host):
    import ipaddress
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Address:
    """An http(s) address as it is opened: url without user and password, headers that stand for them."""

    def __init__(self, url, secret):
        import base64, re, urllib.parse
        wanted = "an address: http://host:port/path"
        scheme, rest = url.split("://", 1)
        place, rest = re.fullmatch(r"([^/?#]*)(.*)", rest, re.DOTALL).groups()
        login, _, place = place.rpartition("@")
        self.name = re.split(r"[?#]", rest)[0].rstrip("/").rsplit("/", 1)[-1]
        shown = place
        place, rest, login = from_environment(place), from_environment(rest), from_environment(login)
        try:
            parts = urllib.parse.urlsplit(scheme + "://" + place)
            self.host, _ = parts.hostname, parts.port
            place = place.encode("idna").decode() if not place.isascii() else place
        except ValueError as error:  # of a port, of characters
            raise Fault(wanted, short(error))
        if not self.host:
            raise Fault(wanted, "no host in it")
        if re.search(r"[\x00-\x20\x7f]", place + rest):
            raise Fault(wanted, "white space or a control character in it", "", "write %20 for a blank")
        self.name = self.name or (self.host if shown == place else shown)
        self.url = scheme + "://" + place + urllib.parse.quote(rest, safe="%/:=&?~#+!$,;'@()*[]{}|^\\`<>\"")
        self.headers = {}
        self.safe = scheme == "https" or is_loopback(self.host)
        if secret:
            self.require_safe()
        if login:
            user, _, password = login.partition(":")
            plain = urllib.parse.unquote(user) + ":" + urllib.parse.unquote(password)
            code = base64.b64encode(plain.encode()).decode()
            SECRETS[code] = "***"
            for part in (password or user, urllib.parse.unquote(password or user)):
                if len(part) > 3:
                    SECRETS.setdefault(part, "***")
            self.headers["Authorization"] = "Basic " + code
        for value in re.findall(r"[?&;][^=&;#]*=([^&;#]{8,})", rest) if secret else ():
            SECRETS.setdefault(value, "***")

    def require_safe(self):
        if not self.safe:
            raise Fault("https, or an address of this machine (127.0.0.1), where a key or password is sent along",
                        f"http to {self.host}", "whoever is on the way would read it",
                        "use https, or a tunnel to this machine")

    def add_key(self, variable):
        """The key of an OpenAI-compatible API: OPENAI_API_KEY goes to OpenAI, others where they are named for."""
        openai = self.host == "api.openai.com" and self.safe
        key = os.environ.get(variable or ("OPENAI_API_KEY" if openai else ""), "").strip()
        if variable and not key:
            raise Fault(f"the environment variable {variable}, which judge_api_key_env names", "it is not set", "",
                        f"export {variable}=..., then start hone again")
        if not key:
            return
        self.require_safe()
        if not key.isascii() or not key.isprintable():
            raise Fault("a key of printable characters", f"others in {variable or 'OPENAI_API_KEY'}")
        SECRETS[key] = "***"
        self.headers["Authorization"] = "Bearer " + key


def seconds_to_wait(headers):
    """Retry-After: seconds or a date."""
    import email.utils
    text = (headers.get("Retry-After") or "").strip()
    try:
        if text.isdigit() and len(text) < 10:
            return int(text)
        return max(0, min(1e9, email.utils.parsedate_to_datetime(text).timestamp() - time.time())) if text else 0
    except (TypeError, ValueError, OverflowError, IndexError):
        return 0


def http_poster(address):
    """A function that posts JSON and returns the JSON that an answer with status 200 holds."""
    import http.client, socket, ssl, urllib.error, urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *arguments):
            return None

    proxies = [urllib.request.ProxyHandler({})] if is_loopback(address.host) else []
    opener = urllib.request.build_opener(NoRedirect, *proxies)

    def answer(body, most):
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "hone", **address.headers}
        request = urllib.request.Request(address.url, data=body, headers=headers)
        try:
            with opener.open(request, timeout=max(0.001, SECONDS)) as response:
                return response.status, response.read(most + 1), 0
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(1000), seconds_to_wait(error.headers)

    def asked(body, most):
        try:
            return answer(body, most)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            reason = reason if isinstance(reason, BaseException) else error
            if isinstance(reason, (socket.timeout, TimeoutError)):
                raise Later("slow", f"no answer within {SECONDS:.3g} s")
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise Fault("a certificate that this Python trusts", describe(reason), "",
                            "SSL_CERT_FILE names the file of an authority of your own")
            gone = isinstance(reason, (ConnectionRefusedError, socket.gaierror)) or \
                isinstance(reason, OSError) and not isinstance(reason, (ConnectionError, ssl.SSLError))
            raise Later("absent" if gone else "shaky", describe(reason))

    def post(content, wanted, samples):
        body = json.dumps(content).encode()
        most = MOST_ANSWER + MOST_PER_SAMPLE * samples
        status, data, seconds = asked(body, most)
        if status != 200:
            name = http.client.responses.get(status, "")
            what = f"{status} {name}".strip() + (f", {short(data.decode('utf-8', 'replace'))}" if data else "")
            if status in BUSY:
                raise Later("busy", what, seconds)
            if status >= 500:
                raise Later("shaky", what, seconds)
            if status < 400 or status in WRONG_ADDRESS:
                fault = Fault("status 200", what, "not the endpoint's address, method or key", "correct the address")
                fault.passing = True
                raise fault
            raise HttpAnswer(f"status {what}", whole=False)
        if len(data) > most:
            raise HttpAnswer(f"an answer of more than {most >> 20} MB, where {wanted} is wanted")
        found = short(data[:200].decode("utf-8", "replace")) or "an empty answer"
        try:
            return json.loads(data), found
        except (ValueError, RecursionError):  # a page of a proxy's, cut off, nested too deeply
            raise Later("shaky", f"{found}, where {wanted} is wanted")

    return post


def http_reward(url, secret):
    address = Address(url, secret)
    post = http_poster(address)

    def call(prompts, completions, completion_ids, trainer_state, log_extra, log_metric, **columns):
        wanted = 'JSON: {"rewards": [...]} or the list alone'
        content = {"prompts": prompts, "completions": completions, "completion_ids": completion_ids, **columns}
        reply, found = post(content, wanted, len(completions))
        rewards = reply.get("rewards") if isinstance(reply, dict) else reply
        if not isinstance(rewards, list):
            raise HttpAnswer(f"{found}, where {wanted} is wanted")
        return rewards

    call.__name__ = address.name
    return call, address.name, [], None


QUESTION = """Two answers to the same request follow. Say which of them serves the request better: being right comes first, then \
being useful and clear. Length alone is no merit.

Request:
{prompt}

Answer 0:
{first}

Answer 1:
{second}

Reply with the number of the better answer, 0 or 1, and with nothing else."""


def words_of(text):
    if isinstance(text, str):
        return text
    if len(text) == 1:
        return str(text[0].get("content", ""))
    return "\n".join(f"{one.get('role', '')}: {one.get('content', '')}" for one in text)


def verdict_of(text):
    """0 or 1; or the text itself, which is no verdict."""
    import re
    if not isinstance(text, str):
        return short_repr(text)
    named = set(re.findall(r"\b[01]\b", text.rsplit("</think>", 1)[-1]))
    return int(named.pop()) if len(named) == 1 else text


def http_judge(url, secret, model, prompt, key):
    """A model behind an OpenAI-compatible API, asked once a pair."""
    import re
    path, mark, rest = url.partition("?")
    path = path.rstrip("/")
    address = Address((path if path.endswith("/chat/completions") else path + "/chat/completions") + mark + rest, secret)
    address.add_key(key)
    post = http_poster(address)
    answered = {}  # of a call that has to be repeated: what is known already

    def ask(request, pair):
        values = {"prompt": words_of(request), "first": words_of(pair[0]), "second": words_of(pair[1])}
        question = re.sub(r"\{(prompt|first|second)\}", lambda field: values[field[1]], prompt or QUESTION)
        wanted = 'JSON: {"choices": [{"message": {"content": "0"}}]}'
        if question not in answered:
            reply, found = post({"model": model, "messages": [{"role": "user", "content": question}], "temperature": 0}, wanted, 1)
            try:
                answered[question] = verdict_of(reply["choices"][0]["message"]["content"])
            except (TypeError, KeyError, IndexError):
                raise HttpAnswer(f"{found}, where {wanted} is wanted")
        return answered[question]

    def call(prompts, completions):
        verdicts = [ask(request, pair) for request, pair in zip(prompts, completions)]
        answered.clear()
        return verdicts

    return call, model, [], {"prompts", "completions"}
