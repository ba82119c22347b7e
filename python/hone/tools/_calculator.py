"""A calculator with a parser of its own: nothing is evaluated but numbers, operators and the functions below."""
import decimal
import math
import re

MOST_CHARACTERS, MOST_DEPTH, MOST_BITS = 1000, 60, 4000

_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z]\w*)|(\*\*|//|[-+*/%^(),!]))")
_WORDS = str.maketrans({"\u00d7": "*", "\u00f7": "/", "\u2212": "-", "\u00b7": "*"})
_CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}


def _rounded(value, digits=0):
    """Halves away from zero, as people round."""
    places = decimal.Decimal(1).scaleb(-max(-300, min(300, int(digits))))
    with decimal.localcontext() as context:
        context.prec = 2 * MOST_BITS
        out = decimal.Decimal(repr(value)).quantize(places, decimal.ROUND_HALF_UP)
    return int(out) if out == int(out) else float(out)


def _factorial(value):
    if value != int(value) or not 0 <= value <= 500:
        raise ValueError("the factorial is of a whole number from 0 to 500")
    return math.factorial(int(value))


_FUNCTIONS = {  # name -> (function, fewest arguments, most)
    "sqrt": (math.sqrt, 1, 1), "abs": (abs, 1, 1), "round": (_rounded, 1, 2), "floor": (math.floor, 1, 1), "ceil": (math.ceil, 1, 1),
    "exp": (math.exp, 1, 1), "log": (math.log, 1, 2), "ln": (math.log, 1, 1), "log2": (math.log2, 1, 1), "log10": (math.log10, 1, 1),
    "sin": (math.sin, 1, 1), "cos": (math.cos, 1, 1), "tan": (math.tan, 1, 1), "asin": (math.asin, 1, 1), "acos": (math.acos, 1, 1),
    "atan": (math.atan, 1, 1), "min": (min, 2, 50), "max": (max, 2, 50), "factorial": (_factorial, 1, 1),
    "gcd": (lambda a, b: math.gcd(int(a), int(b)), 2, 2),
}


def _limited(value):
    if isinstance(value, complex):
        raise ValueError("the result is not a real number")
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise OverflowError("the number is too long")
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError("the number is too large")
    return value


def _power(base, exponent):
    if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        if base.bit_length() * exponent > 2 * MOST_BITS:
            raise OverflowError("the number is too long")
        return base ** exponent
    return float(base) ** exponent


def _divided(left, right):
    if isinstance(left, int) and isinstance(right, int) and right != 0 and left % right == 0:
        return left // right
    return left / right


_OPERATORS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": _divided, "//": lambda a, b: a // b,
              "%": lambda a, b: a % b}


class _Parser:
    """sum: product {+|- product}; product: sign {*|/|//|% sign}; sign: -sign | power; power: item [** sign]; item: atom {!}"""

    def __init__(self, text):
        self.tokens, self.at, self.depth = [], 0, 0
        end, text = 0, text.translate(_WORDS).rstrip()
        while end < len(text):
            found = _TOKEN.match(text, end)
            if found is None:
                raise ValueError(f"character {text[end:].lstrip()[:1]!r} is no part of an expression")
            self.tokens.append(found.groups())
            end = found.end()

    def operator(self):
        return self.tokens[self.at][2] if self.at < len(self.tokens) else None

    def takes(self, *wanted):
        found = self.operator()
        if found not in wanted:
            return None
        self.at += 1
        return found

    def whole(self):
        value = self.sum()
        if self.at < len(self.tokens):
            raise ValueError(f"{''.join(part or '' for part in self.tokens[self.at])!r} is not expected after a value")
        return value

    def chain(self, part, *operators):
        value = part()
        while True:
            operator = self.takes(*operators)
            if operator is None:
                return value
            value = _limited(_OPERATORS[operator](value, part()))

    def sum(self):
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise ValueError("the expression is nested too deeply")
        value = self.chain(self.product, "+", "-")
        self.depth -= 1
        return value

    def product(self):
        return self.chain(self.sign, "*", "/", "//", "%")

    def sign(self):
        negative = False
        while True:
            found = self.takes("-", "+")
            if found is None:
                break
            negative ^= found == "-"
        value = self.power()
        return -value if negative else value

    def power(self):
        value = self.item()
        if self.takes("**", "^"):
            self.depth += 1
            if self.depth > MOST_DEPTH:
                raise ValueError("the expression is nested too deeply")
            value = _limited(_power(value, self.sign()))
            self.depth -= 1
        return value

    def item(self):
        value = self.atom()
        while self.takes("!"):
            value = _limited(_factorial(value))
        return value

    def atom(self):
        if self.takes("("):
            value = self.sum()
            self.close()
            return value
        if self.at >= len(self.tokens):
            raise ValueError("the expression ends where a number is expected")
        number, word, operator = self.tokens[self.at]
        self.at += 1
        if number is not None:
            return _limited(int(number) if number.isdigit() else float(number))
        if word is None:
            raise ValueError(f"{operator!r} stands where a number is expected")
        if word in _CONSTANTS and self.operator() != "(":
            return _CONSTANTS[word]
        return self.call(word)

    def close(self):
        if not self.takes(")"):
            raise ValueError("a closing parenthesis is missing")

    def call(self, word):
        if word not in _FUNCTIONS:
            raise ValueError(f"{word} is not known; there are {', '.join(_FUNCTIONS)}, {', '.join(_CONSTANTS)}")
        if not self.takes("("):
            raise ValueError(f"{word} wants its arguments in parentheses")
        function, fewest, most = _FUNCTIONS[word]
        arguments = [self.sum()]
        while self.takes(","):
            arguments.append(self.sum())
        self.close()
        if not fewest <= len(arguments) <= most:
            raise ValueError(f"{word} takes {fewest if fewest == most else f'{fewest} to {most}'} arguments, and has {len(arguments)}")
        return _limited(function(*arguments))


def calculator(expression: str) -> str:
    """Calculates the value of an arithmetic expression.

    Args:
        expression: Numbers, + - * / // % ** and parentheses, the functions sqrt, abs, round, floor, ceil, exp, log, ln, sin, cos, tan,
            min, max, factorial and gcd, and the constants pi and e. For example 3 * (4 + 5) / 2.

    Returns:
        The value.
    """
    if len(expression) > MOST_CHARACTERS:
        raise ValueError(f"an expression has at most {MOST_CHARACTERS} characters")
    if not expression.strip():
        raise ValueError("the expression is empty")
    value = _Parser(expression).whole()
    if isinstance(value, float):
        text = f"{value:.12g}"
        return text[:-2] if text.endswith(".0") else text
    return str(value)
