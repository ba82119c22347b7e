"""Expressions and small templates that tests/parity/record_expressions.py renders with transformers' jinja2, and
tests/text/template_expressions_test.cpp with hone. One template a line; VARIABLES are what they read."""

VARIABLES = {
    "s": "Hello World",
    "low": "the quick brown fox jumps over the lazy dog",
    "empty": "",
    "ws": "  a b\n\tc  ",
    "uni": "Größe ß ﬁn İx 你好 😀 ǆx",
    "html": '<b class="x">it\'s & 5 > 4</b> <!-- no --> &lt; &eacute;',
    "q": "it's \"quoted\" \\ back\nline\ttab \x01 é \u00a0 😀",
    "lines": "one\ntwo\n\n  three\r\nfour\x0bfive",
    "n": 42,
    "neg": -7,
    "zero": 0,
    "f": 3.14159,
    "big": 1234567890,
    "t": True,
    "no": False,
    "nothing": None,
    "l": [3, 1, 2],
    "words": ["banana", "Apple", "cherry", "apple"],
    "mixed": [1, 2.5, "x", None, True, [1, "y'z"], {"k": 'v"w'}],
    "el": [],
    "ed": {},
    "d": {"b": 2, "A": 3, "c": 1, "items2": "x"},
    "users": [
        {"name": "Bob", "age": 30, "city": {"name": "Rome"}, "active": True},
        {"name": "alice", "age": 25, "city": {"name": "Oslo"}, "active": False},
        {"name": "Carl", "age": 30, "city": {"name": "Rome"}, "active": True},
    ],
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}, {"v": 5, "c": []}],
    "matrix": [[1, 2], [3, 4], [5, 6]],
    "url": "See https://example.com/a?b=1&c=2 and www.test.org. Mail bob@x.org (http://y.de)",
    "long": "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor-incididunt ut labore",
}

FILTERS = r"""
{{ neg|abs }} {{ -3.5|abs }} {{ true|abs }}
{{ users[0]|attr('name') }}|{{ s|attr('nope') is defined }}
{{ l|batch(2)|list }}
{{ [1,2,3,4,5]|batch(2, 'x')|list }}
{% for row in [1,2,3,4,5]|batch(linecount=2, fill_with=0) %}{{ row|join(',') }};{% endfor %}
{{ 'hELLO wORLD'|capitalize }} {{ uni|capitalize }} {{ ''|capitalize }} {{ n|capitalize }}
{{ 'ab'|center(7) }}| {{ 'ab'|center(6) }}| {{ 'abc'|center(width=8) }}|
{{ 'ab'|center }}|
{{ l|count }} {{ s|count }} {{ d|count }}
{{ missing|default('x') }} {{ empty|default('x', true) }} {{ nothing|default('x') }} {{ zero|d(5, boolean=true) }}
{{ missing|default }}|{{ nothing|default('y', boolean=True) }}|{{ missing|d(default_value=[1]) }}
{{ d|dictsort }}
{{ d|dictsort(true) }}
{{ {'x': 2, 'y': 1}|dictsort(by='value') }}
{{ {'x': 'a', 'y': 'B'}|dictsort(false, 'value', true) }}
{{ d|dictsort(case_sensitive=true, reverse=true) }}
{% for k, v in d|dictsort %}{{ k }}={{ v }} {% endfor %}
{{ html|escape }}
{{ html|e }}
{{ n|e }} {{ nothing|e }} {{ l|e }}
{{ html|forceescape }}
{{ html|e|e }}
{{ html|safe|e }}
{{ (html|e)|forceescape }}
{{ '<a>'|e ~ '<b>' }}
{{ ('<a>'|e) + '<b>' }}
{{ '<b>' ~ ('<a>'|e) }}
{{ ['<a>', '<b>'|e]|join('<i>') }}
{{ ('<a>'|e)|upper }}
{{ ('<a>'|e)|length }}
{{ ('<a>'|safe)|replace('a', '<i>') }}
{{ 0|filesizeformat }} {{ 1|filesizeformat }} {{ 999|filesizeformat }} {{ 1000|filesizeformat }} {{ 1500000|filesizeformat }}
{{ 1024|filesizeformat(true) }} {{ 1048576|filesizeformat(binary=true) }} {{ 13000000000|filesizeformat }} {{ '1300'|filesizeformat }}
{{ l|first }} {{ s|first }} {{ d|first }} {{ el|first is defined }}
{{ l|last }} {{ s|last }} {{ d|last }} {{ el|last is defined }}
{{ '3.5'|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ 7|float }} {{ true|float }} {{ nothing|float }} {{ '1e3'|float }}
{{ 'inf'|float }} {{ '-nan'|float }} {{ ' 12 '|float }} {{ 'x'|float(default='d') }}
{{ '%s is %d'|format('x', 5) }}
{{ '%(a)s-%(b)05.2f'|format(a='q', b=3.14159) }}
{{ '%5s|%-5s|%05d|%+d|%x|%X|%o|%e|%g|%c|%%'|format('a', 'b', 42, 7, 255, 255, 8, 12345.678, 0.0001, 'z') }}
{{ '%r %s'|format(q, [1, 'a']) }}
{{ matrix|groupby(0) }}
{% for g, items in users|groupby('age') %}{{ g }}:{{ items|map(attribute='name')|join(',') }};{% endfor %}
{% for g in users|groupby('city.name') %}{{ g.grouper }}:{{ g.list|length }};{% endfor %}
{% for g in users|groupby('nope', default='zz') %}{{ g.grouper }}:{{ g.list|length }};{% endfor %}
{% for g in words|map('upper')|map('first')|groupby(0) %}{{ g.0 }};{% endfor %}
{% for g in [{'x':'a'},{'x':'B'},{'x':'b'}]|groupby('x') %}{{ g.grouper }}{{ g.list|length }};{% endfor %}
{% for g in [{'x':'a'},{'x':'B'},{'x':'b'}]|groupby('x', case_sensitive=true) %}{{ g.grouper }}{{ g.list|length }};{% endfor %}
{{ 'a\nb\n\nc'|indent }}
{{ 'a\nb\n\nc'|indent(2) }}
{{ 'a\nb\n\nc'|indent(2, true) }}
{{ 'a\nb\n\nc'|indent(2, true, true) }}
{{ 'a\nb\n\nc'|indent(width=3, blank=true) }}
{{ 'a\nb\n\nc\n'|indent('> ') }}
{{ 'a\nb\n\nc\n'|indent(width='> ', first=true) }}
{{ ''|indent }}|{{ ''|indent(2, true) }}|
{{ lines|indent(1) }}
{{ '42'|int }} {{ '42.9'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ 3.99|int }} {{ -3.99|int }} {{ true|int }} {{ '0x1f'|int(base=16) }}
{{ '0b11'|int(0, 2) }} {{ '77'|int(base=8) }} {{ ' 5 '|int }} {{ '1_000'|int }} {{ nothing|int }} {{ nothing|int(default=-1) }} {{ 'zz'|int(base=36) }}
{{ d|items|list }}
{% for k, v in d|items %}{{ k }}{{ v }}{% endfor %}|{{ missing|items|list }}
{{ l|join }} {{ l|join('-') }} {{ words|join(', ') }} {{ s|join('.') }} {{ d|join('/') }}
{{ users|join(', ', attribute='name') }} {{ users|join(attribute='city.name', d='+') }}
{{ mixed|join('|') }}
{{ s|length }} {{ uni|length }} {{ mixed|length }} {{ d|length }} {{ range(5)|length }}
{{ s|list }} {{ d|list }} {{ (1,2)|list }} {{ range(3)|list }} {{ empty|list }}
{{ 'ÀÉÎ ß İ'|lower }} {{ n|lower }} {{ true|lower }} {{ nothing|lower }}
{{ users|map(attribute='name')|list }}
{{ users|map(attribute='city.name')|list }}
{{ users|map(attribute='nope', default='-')|list }}
{{ users|map(attribute='city.nope', default='-')|list }}
{{ matrix|map(attribute=0)|list }} {{ matrix|map('first')|list }} {{ matrix|map(attribute='1')|list }}
{{ words|map('upper')|list }} {{ words|map('replace', 'a', 'X')|list }} {{ l|map('string')|join }}
{{ words|map('length')|sum }} {{ l|map('float')|list }} {{ words|map('truncate', 4, true, '')|list }}
{{ l|max }} {{ words|max }} {{ words|max(true) }} {{ words|max(case_sensitive=true) }} {{ (users|max(attribute='age')).name }} {{ el|max is defined }}
{{ l|min }} {{ words|min }} {{ words|min(true) }} {{ (users|min(attribute='age')).name }} {{ el|min is defined }} {{ 'hello'|min }}
{{ l|pprint }} {{ s|pprint }} {{ d|pprint }} {{ nothing|pprint }} {{ f|pprint }}
{{ users|pprint }}
{{ mixed|pprint }}
{{ {'b': {'z': 1, 'a': [1,2,3]}, 'a': (1,)}|pprint }}
{{ long|pprint }}
{{ [long, long]|pprint }}
{{ {'k': long, 'j': words * 5}|pprint }}
{{ (words * 6)|pprint }}
{{ l|reject('odd')|list }} {{ l|reject('greaterthan', 1)|list }} {{ [0,1,'',none,'a']|reject|list }}
{{ users|rejectattr('active')|map(attribute='name')|list }} {{ users|rejectattr('age', 'equalto', 30)|map(attribute='name')|list }}
{{ users|rejectattr('city.name', 'eq', 'Rome')|map(attribute='name')|join }}
{{ s|replace('l', 'L') }} {{ s|replace('l', 'L', 1) }} {{ s|replace('o', '', count=1) }} {{ 12321|replace('2', '9') }}
{{ 'aaa'|replace('', '-') }} {{ 'aaaa'|replace('aa', 'b') }} {{ s|replace(old='World', new='You') }}
{{ s|reverse }} {{ l|reverse|list }} {{ uni|reverse }} {{ words|reverse|join(',') }}
{{ 42.55|round }} {{ 42.55|round(1) }} {{ 42.55|round(1, 'floor') }} {{ 42.55|round(1, 'ceil') }} {{ 42|round }} {{ 42.5|round }} {{ 43.5|round }} {{ 2.675|round(2) }}
{{ 42.55|round(0, 'floor')|int }} {{ 1234|round(-2) }} {{ -2.5|round }} {{ 2.5|round(method='ceil') }} {{ 1e20|round }} {{ 0.5|round(precision=0) }}
{{ html|safe }}
{{ l|select('odd')|list }} {{ [0,1,'',none,'a']|select|list }} {{ l|select('>', 1)|list }} {{ words|select('in', ['apple','Apple'])|list }}
{{ words|select('equalto', 'apple')|list }} {{ mixed|select('string')|list }} {{ mixed|select('number')|list }} {{ [1,2,3,4]|select('divisibleby', 2)|list }}
{{ users|selectattr('active')|map(attribute='name')|list }} {{ users|selectattr('age', 'lt', 30)|map(attribute='name')|list }}
{{ users|selectattr('nope', 'undefined')|list|length }} {{ users|selectattr('name', 'in', ['Bob'])|list|length }}
{{ users|selectattr('city.name', '==', 'Rome')|map(attribute='name')|list }}
{{ [1,2,3,4,5,6,7]|slice(3)|list }}
{{ [1,2,3,4,5,6,7]|slice(3, 'x')|list }} {{ l|slice(slices=2, fill_with=0)|list }}
{{ l|sort }} {{ l|sort(true) }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ words|sort(reverse=true) }}
{{ users|sort(attribute='age')|map(attribute='name')|list }} {{ users|sort(attribute='age,name')|map(attribute='name')|list }} {{ users|sort(attribute='city.name', reverse=true)|map(attribute='name')|list }}
{{ d|sort }} {{ s|sort|join }} {{ (3,1,2)|sort }} {{ [2.5, 1, true]|sort }}
{{ n|string }} {{ f|string }} {{ l|string }} {{ nothing|string }} {{ t|string }} {{ d|string }} {{ html|string }}
{{ html|striptags }}
{{ '<p>a  b\n c</p><br/>d &amp; e'|striptags }} {{ '<a'|striptags }} {{ 'x <!-- <b> --> y'|striptags }}
{{ l|sum }} {{ el|sum }} {{ l|sum(start=10) }} {{ users|sum(attribute='age') }} {{ users|sum('age', 5) }} {{ [1.5, 2]|sum }} {{ [0.1,0.2,0.3]|sum }}
{{ matrix|sum(start=[]) }} {{ [[1],[2]]|sum(start=[]) }}
{{ "hello world"|title }} {{ "it's they're"|title }} {{ "foo-bar (baz) [qux] {a} <b>"|title }} {{ "HELLO wORLD 3rd"|title }} {{ "ÉCOLE ñandú"|title }} {{ ''|title }}
{{ "a.b,c_d e/f"|title }} {{ uni|title }} {{ "x  y\tz"|title }}
{{ d|tojson }} {{ html|tojson }} {{ q|tojson }} {{ mixed|tojson }} {{ uni|tojson }}
{{ d|tojson(indent=2) }} {{ el|tojson(indent=2) }} {{ ed|tojson(indent=2) }}
{{ users|tojson(indent=4, ensure_ascii=true) }} {{ uni|tojson(ensure_ascii=true) }} {{ d|tojson(sort_keys=true) }} {{ d|tojson(separators=(',', ':')) }}
{{ 1.0|tojson }} {{ 1e-7|tojson }} {{ true|tojson }} {{ none|tojson }} {{ (1,2)|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }}
{{ ws|trim }}| {{ 'xxaxx'|trim('x') }} {{ 'abcab'|trim(chars='ab') }} {{ n|trim }} {{ '\u00a0a\u3000'|trim }}|
{{ low|truncate(20) }}
{{ low|truncate(20, true) }} {{ low|truncate(20, false, '..') }} {{ low|truncate(length=9, killwords=true, end='!') }} {{ low|truncate(41) }} {{ low|truncate(40) }} {{ low|truncate(38, leeway=0) }}
{{ low|truncate(40, leeway=0) }} {{ 'supercalifragilistic'|truncate(10) }} {{ long|truncate(30, true, leeway=2) }} {{ ''|truncate(5) }}
{{ words|unique|list }} {{ words|unique(true)|list }} {{ [1,2,1,3,2]|unique|list }} {{ users|unique(attribute='age')|map(attribute='name')|list }} {{ 'hello'|unique|join }}
{{ [1, 1.0, true]|unique|list }} {{ words|unique(case_sensitive=true)|join(',') }}
{{ 'straße ﬁ ǆ'|upper }} {{ n|upper }} {{ nothing|upper }}
{{ 'a b&c/d?é=ü'|urlencode }} {{ {'a': 1, 'b c': 'd&e'}|urlencode }} {{ [('a', 1), ('b', 'x y')]|urlencode }} {{ n|urlencode }} {{ 'a~b-c_d.e'|urlencode }}
{{ url|urlize }}
{{ url|urlize(20) }}
{{ url|urlize(20, true) }} {{ url|urlize(target='_blank') }} {{ 'x'|urlize }}
{{ 'http://a.b/c'|urlize(rel='me') }} {{ '<http://a.b> foo.com, (www.x.net)'|urlize }} {{ 'mailto:a@b.cd tel:+1'|urlize(extra_schemes=['tel:']) }}
{{ s|wordcount }} {{ ''|wordcount }} {{ "it's a-b c_d, é 你好"|wordcount }} {{ long|wordcount }}
{{ long|wordwrap(20) }}
{{ long|wordwrap(20, false) }}
{{ long|wordwrap(width=15, wrapstring='|') }} {{ 'abcdefghij klm'|wordwrap(4) }}
{{ long|wordwrap(20, break_on_hyphens=false) }} {{ 'a\n\nb c d e f g'|wordwrap(4) }} {{ ''|wordwrap }}
<x{{ {'class': 'a b', 'id': none, 'data-x': 3, 'q': '"<'}|xmlattr }}> <x{{ {'a': 1}|xmlattr(false) }}> <x{{ {}|xmlattr }}>
{{ s | upper | lower | replace('h', 'J') | title }}
{{ (words | map('lower') | unique | sort | join('-')) }}
{{ words | map('lower') | unique | sort(reverse=true) | first }}
{{ l | map('string') | map('int') | sum }}
{{ users | map(attribute='name') | map('upper') | join(', ') }}
{{ users | groupby('active') | map('first') | list }}
{% filter upper %}abc {{ s }}{% endfilter %}
{% filter replace('a', 'b') | upper %}banana{% endfilter %}
{% filter trim %}  x {% endfilter %}|
{{ users | map(attribute='age') | sum / users | length }}
{{ 'abc' | map('upper') | join('.') }}
{{ d | map('upper') | list }}
{{ 5 | string | length }}
{{ [1,2,3] | join(',') | replace(',', ';') }}
{{ -1 | abs }} {{ 1 + 2 | string | length }}
{{ words | batch(3) | map('list') | list }}
{{ words | random is string }}
{{ range(10) | select('even') | map('string') | join('') }}
{{ [[1,2],[3]] | map('sum') | list }} {{ [[3,1],[2]] | map('sort') | list }}
{{ [{'a': 1}, {'a': 2}] | selectattr('a', 'ge', 2) | list }}
{{ [[1, 'a'], [2, 'b']] | selectattr(0, 'gt', 1) | list }} {{ [[1, 'a'], [2, 'b']] | selectattr('0') | list }}
{{ (d | dictsort | first)[0] }} {{ (d | items | list | last)[1] }}
{{ 'x' | default('y') | upper }} {{ missing | default([]) | length }} {{ missing | default('z') if false else 'w' }}
{{ [none, 1] | map('default', 'n', true) | list }}
{{ s | e | length }} {{ '' | escape }}|
{{ ['a', ['b', 'c']] | string }} {{ ['a', ['b', 'c']] | tojson }}
{{ {'a': {'b': 'c'}} | tojson | length }}
{{ {'a': [1, 2]} | tojson(indent='\t') }}
{{ 'é' | tojson(ensure_ascii=True) | upper }} {{ '\u2028' | tojson }}
{{ 1.5 | tojson }} {{ 1e22 | tojson }} {{ 12345678901234567890 | tojson }}
"""

TESTS = r"""
{{ t is boolean }} {{ 1 is boolean }} {{ s is boolean }} {{ no is boolean }}
{{ raise_exception is callable }} {{ s is callable }} {{ range is callable }} {{ namespace is callable }}
{{ s is defined }} {{ missing is defined }} {{ d.nope is defined }} {{ d.b is defined }} {{ nothing is defined }} {{ users[9] is defined }}
{{ 6 is divisibleby 3 }} {{ 7 is divisibleby(3) }} {{ n is divisibleby(num=7) }}
{{ 1 is eq 1 }} {{ 1 is equalto 1.0 }} {{ 'a' is eq('b') }} {{ [1] is eq [1] }}
{{ ('<'|e) is escaped }} {{ '<' is escaped }} {{ ('<'|safe) is escaped }}
{{ 2 is even }} {{ 3 is even }} {{ 0 is even }} {{ -2 is even }} {{ 3 is odd }} {{ -3 is odd }}
{{ false is false }} {{ 0 is false }} {{ none is false }} {{ true is true }} {{ 1 is true }}
{{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'even' is test }} {{ 'nope' is test }} {{ 'urlize' is filter }} {{ 'tojson' is filter }} {{ 'split' is filter }}
{{ 1.0 is float }} {{ 1 is float }} {{ '1.0' is float }} {{ true is float }}
{{ 2 is ge 2 }} {{ 2 is gt 1 }} {{ 1 is greaterthan 2 }} {{ 1 is lt 2 }} {{ 1 is lessthan 2 }} {{ 2 is le 1 }} {{ 1 is ne 2 }}
{{ 1 is in [1,2] }} {{ 'a' is in 'abc' }} {{ 'b' is in d }} {{ 5 is not in l }} {{ 3 is in(l) }}
{{ 1 is integer }} {{ true is integer }} {{ 1.0 is integer }} {{ '1' is integer }}
{{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ d is iterable }} {{ none is iterable }} {{ missing is iterable }} {{ range(2) is iterable }}
{{ 'abc' is lower }} {{ 'Abc' is lower }} {{ 'ABC' is upper }} {{ 'A1' is upper }} {{ '1' is lower }} {{ '' is lower }} {{ '1' is upper }}
{{ d is mapping }} {{ l is mapping }} {{ s is mapping }} {{ none is mapping }}
{{ none is none }} {{ nothing is none }} {{ missing is none }} {{ 0 is none }} {{ nothing is not none }}
{{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ '1' is number }} {{ none is number }}
{{ l is sameas l }} {{ none is sameas none }} {{ 1 is sameas 1 }} {{ true is sameas true }} {{ 1 is sameas true }} {{ [1] is sameas [1] }} {{ nothing is sameas(none) }}
{{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is sequence }} {{ none is sequence }} {{ (1,2) is sequence }} {{ range(2) is sequence }}
{{ s is string }} {{ n is string }} {{ none is string }} {{ l is string }} {{ missing is string }}
{{ missing is undefined }} {{ s is undefined }} {{ d.x is undefined }} {{ d['x'] is undefined }} {{ l[10] is undefined }} {{ s[50] is undefined }}
{{ l is not string and s is not mapping }} {{ not s is string }} {{ not (n is odd) }}
{% if users is defined and users is not none and users|length > 0 %}yes{% else %}no{% endif %}
{% if missing is not defined %}nd{% endif %}{% if missing is undefined or missing %}u{% endif %}
{{ 'yes' if l is iterable and l is not string and l is not mapping else 'no' }}
{{ 5 is divisibleby 5 and 4 is even }} {{ (5 is odd) == true }} {{ 4 is even ~ 'x' }}
{{ 'a' is in ['a'] and 'b' is not in ['a'] }}
{{ users[0].name is string }} {{ users[0]['age'] is number }} {{ users[0].city is mapping }}
{{ [1, 'a', none] | map('string') | select('string') | list | length }} {{ mixed | reject('none') | list | length }}
{{ s.upper() is string }} {{ d.items() is iterable }} {{ d.keys() is iterable }} {{ d.items() is sequence }}
{{ missing is true }} {{ missing is false }} {{ missing is number }} {{ missing is mapping }} {{ missing is sequence }} {{ missing is boolean }} {{ missing is callable }}
"""

METHODS = r"""
{{ s.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.split(',', maxsplit=1) }} {{ 'a b  c'.split(maxsplit=1) }} {{ 'a-b'.split(sep='-') }}
{{ ws.split() }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a b'.split(none) }} {{ 'a,b,c'.split(',', -1) }} {{ 'a,b'.split(',', 0) }} {{ ' a b '.split(' ') }}
{{ 'a,b,c'.rsplit(',', 1) }} {{ 'a,b,c'.rsplit(sep=',', maxsplit=1) }} {{ ' a b c '.rsplit(none, 1) }} {{ 'a b c'.rsplit(maxsplit=1) }} {{ 'a,b'.rsplit(',') }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ s.replace('l', 'L', -1) }} {{ 'aa'.replace('', '-') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ s.replace('l', '', 0) }}
{{ ws.strip() }}| {{ ws.lstrip() }}| {{ ws.rstrip() }}| {{ 'xyaxy'.strip('xy') }} {{ 'xya'.lstrip('yx') }} {{ 'axy'.rstrip('xy') }} {{ 'a'.strip(none) }} {{ '\x1ca\u2003'.strip() }}|
{{ s.startswith('Hell') }} {{ s.startswith(('x', 'H')) }} {{ s.endswith('ld') }} {{ s.endswith(('a', 'b')) }} {{ s.startswith('W', 6) }} {{ s.startswith('lo', 3, 5) }} {{ s.endswith('lo', 0, 5) }} {{ s.startswith('') }}
{{ s.find('o') }} {{ s.find('o', 5) }} {{ s.find('z') }} {{ s.rfind('o') }} {{ s.find('o', 0, 3) }} {{ uni.find('你') }} {{ s.rfind('o', 0, 5) }} {{ s.find('') }} {{ s.find('o', -4) }}
{{ s.index('o') }} {{ s.rindex('o') }} {{ s.index('o', 5) }}
{{ s.count('l') }} {{ s.count('') }} {{ 'aaaa'.count('aa') }} {{ s.count('o', 5) }} {{ s.count('l', 0, 3) }}
{{ ', '.join(words) }} {{ ''.join(['a','b']) }} {{ '-'.join('abc') }} {{ ','.join(d) }} {{ '+'.join(words|map('upper')) }}
{{ '{} and {}'.format('a', 1) }} {{ '{0} {1} {0}'.format('a', 'b') }} {{ '{x}-{y}'.format(x=1, y='z') }} {{ '{:>5}|{:<5}|{:^5}|'.format('a', 'b', 'c') }} {{ '{:05d} {:.2f} {:,}'.format(42, 3.14159, 1234567) }} {{ '{{}} {}'.format('x') }}
{{ '{!r} {!s}'.format('a', 'b') }} {{ '{:*^9}'.format('mid') }} {{ '{:x} {:b} {:o} {:e} {:%}'.format(255, 5, 8, 12345.6, 0.25) }} {{ '{:+d} {: d}'.format(5, 5) }} {{ '{:10.3f}|'.format(2.71828) }} {{ '{:>{w}}'.format('a', w=4) }}
{{ '{0[name]} {0[age]}'.format(users[0]) }} {{ '{:s} {:d}'.format('x', 3) }} {{ '{:#x} {:#b}'.format(255, 5) }} {{ '{:,.2f}'.format(1234567.891) }} {{ '{:_}'.format(1000000) }} {{ '{:g} {:g}'.format(1e10, 0.5) }}
{{ '{} {} {} {}'.format(none, true, 1.0, [1, 'a']) }}
{{ s.title() }} {{ "it's a-b 3x".title() }} {{ s.capitalize() }} {{ 'ABC dEF'.capitalize() }} {{ s.swapcase() }} {{ s.upper() }} {{ s.lower() }} {{ 'Straße'.casefold() }} {{ 'ß'.upper() }}
{{ '42'.zfill(5) }} {{ '-42'.zfill(5) }} {{ '+4'.zfill(4) }} {{ 'abc'.zfill(2) }} {{ 'ab'.center(7) }}| {{ 'ab'.center(7, '*') }} {{ 'abc'.center(6, '-') }} {{ 'ab'.ljust(5, '.') }} {{ 'ab'.rjust(5, '.') }} {{ 'ab'.ljust(4) }}|
{{ '12'.isdigit() }} {{ '1.2'.isdigit() }} {{ ''.isdigit() }} {{ 'ab'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'Ab'.istitle() }} {{ 'AB'.isupper() }} {{ 'ab'.islower() }} {{ '½'.isnumeric() }} {{ '１'.isdecimal() }} {{ 'a_1'.isidentifier() }} {{ 'a'.isascii() }} {{ 'é'.isascii() }} {{ 'a\n'.isprintable() }}
{{ lines.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ 'a\r\nb\n'.splitlines() }} {{ ''.splitlines() }} {{ 'a\n\nb'.splitlines(keepends=true) }} {{ 'a\u2028b\x1cc'.splitlines() }}
{{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('=') }} {{ 'abc'.rpartition('=') }}
{{ 'TestHook'.removeprefix('Test') }} {{ 'MiscTests'.removesuffix('Tests') }} {{ 'abc'.removeprefix('x') }} {{ 'aa'.removesuffix('a') }}
{{ 'a\tb'.expandtabs(4) }} {{ 'a\tb'.expandtabs() }} {{ 'ab\tc\n\td'.expandtabs(tabsize=4) }}
{{ d.items()|list }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.get('b') }} {{ d.get('z') }} {{ d.get('z', 'dflt') }} {{ d.copy() }}
{% for k, v in d.items() %}{{ k }}:{{ v }}{% if not loop.last %},{% endif %}{% endfor %}
{% for k in d.keys() %}{{ k }}{% endfor %} {% for v in d.values() %}{{ v }}{% endfor %} {{ 'b' in d.keys() }} {{ 2 in d.values() }} {{ d.keys()|length }} {{ d.items()|length }}
{{ l.index(1) }} {{ l.count(3) }} {{ l.copy() }} {{ words.index('cherry') }} {{ (1,2,1).count(1) }} {{ (1,2).index(2) }} {{ [1,2,1].index(1, 1) }}
{{ n.bit_length() }} {{ f.is_integer() }} {{ (4.0).is_integer() }}
{{ d.items() }} {{ d.keys() }} {{ d.values() }}
{{ s.encode is defined }} {{ s.nope is defined }} {{ d.update is defined }} {{ d.items is defined }} {{ l.append is defined }}
{{ users[0].get('name') }} {{ users[0].get('nope', {}).get('x', 'deep') }} {{ users[0].city.get('name')|upper }}
{{ s.split(' ')[0] }} {{ s.split(' ')[-1] }} {{ s.split('o')|length }} {{ s.split(' ')|map('lower')|join('_') }} {{ s[0].upper() ~ s[1:] }}
{{ (s ~ '!').lower().strip('!').split()[1].capitalize() }} {{ 'a'.join(['x', 'y']).upper() }} {{ ' '.join(s.split()[::-1]) }}
{{ '<think>a</think>b'.split('</think>')[-1].lstrip('\n') }} {{ '<think>a</think>b'.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}
{{ "%s" % s }} {{ '%d items' % n }} {{ '%s-%s' % ('a', 'b') }} {{ '%05.1f|%5s|%-5s|' % (3.14159, 'a', 'b') }} {{ '%(x)s' % {'x': 5} }} {{ '100%%' % () }} {{ '%s' % [1, 2] }} {{ '%r' % 'a' }}
{{ '%s %s' % (s, n) ~ '!' }} {{ 'x' ~ '%d' % 5 }} {{ ('%s' % s)|upper }} {{ '%s' % s|upper }} {{ '%x' % 255 }} {{ '%3d|%-3d|%03d' % (1, 2, 3) }} {{ '%i' % 3.9 }} {{ '%.3s' % 'abcdef' }} {{ '%*d' % (5, 42) }}
{{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 % 2 }} {{ 2 * 7 % 4 }} {{ 7 % 4 * 2 }} {{ 1 + 7 % 4 }} {{ loop_index|default(5) % 2 == 1 }} {{ (1 + 2) % 2 }} {{ l[0] % l[2] }} {{ n % 5 if n % 2 == 0 else 0 }} {{ 10 % 3 ** 2 }}
{{ dict(a=1, b='x') }} {{ dict({'a': 1}, b=2) }} {{ dict([('a', 1)]) }} {{ dict() }}
{{ 'Ab'.swapcase() }} {{ 'abc'[::-1] }} {{ 'hello world'.title().replace(' ', '') }} {{ 'x'.join([]) }}|
{{ "a b c".split(" ", 1)[1] }} {{ "k: v: w".split(": ", maxsplit=1)|last }} {{ "a|b".split("|")|join("&") }}
{{ s is string and s.startswith('H') and 'W' in s }} {{ s.lower().count('o') + s.lower().find('w') }}
{{ "abc".index("c") }} {{ "line1\nline2".splitlines()|length }} {{ 'a,b;c'.replace(',', ';').split(';') }}
{{ '{"a": 1}'.strip('{}') }} {{ '```json\n{}\n```'.removeprefix('```json\n').removesuffix('\n```') }}
{{ '{:>10}'.format(n) }}|{{ '{:<10}'.format(n) }}|{{ '{:^10}'.format(f) }}| {{ '{:10}'.format('a') }}|{{ '{:10}'.format(1) }}|
"""

EXPRESSIONS = r"""
{{ 1 + 2 }} {{ 5 - 8 }} {{ 3 * 4 }} {{ 7 / 2 }} {{ 8 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }} {{ 7.0 // 2 }}
{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ (-2) ** 2 }} {{ 2 ** 62 }} {{ 2 ** 100 }} {{ 10 ** 20 + 1 }} {{ 0.1 + 0.2 }} {{ 1e3 }} {{ 1.5e-5 }} {{ 1_000 }} {{ 100000000000000000000 }} {{ 1e16 }} {{ 1e15 }} {{ 123456789.123 }}
{{ 0x1f }} {{ 0b101 }} {{ 0o17 }} {{ 1.0 }} {{ 1.10 }} {{ -0.0 }} {{ +3 }} {{ - 3 }} {{ -n }} {{ +neg }} {{ --3 }} {{ -f }}
{{ true + 1 }} {{ true * 3 }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ [1] * 3 }} {{ 'a' * 0 }}| {{ 'a' * -1 }}| {{ [1] * -1 }} {{ (1,) * 2 }} {{ 2 * [1, 2] }} {{ 'ab' * true }}
{{ 'a' + 'b' }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ [1] + l }} {{ 'a' 'b' }} {{ l + words }} {{ [] + [] }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1, 'x'] ~ missing }} {{ 1 ~ 2 }} {{ 1 ~ 2 * 3 }} {{ 'a' ~ 'b' * 2 }} {{ 'x' ~ (1 + 2) ~ 'y' }}
{{ 1 < 2 }} {{ 2 <= 2 }} {{ 3 > 4 }} {{ 'a' < 'b' }} {{ 'B' < 'a' }} {{ [1,2] < [1,3] }} {{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }} {{ none == none }} {{ [] == [] }} {{ {} == ed }} {{ 1 != 2 }} {{ (1,2) == [1,2] }} {{ (1, 2) < (1, 3) }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1 == 1 }} {{ 3 > 2 > 1 }} {{ 1 < 2 == 2 }} {{ 0 <= n <= 100 }} {{ 1 < n != 5 }} {{ 1 in [1] == true }}
{{ 1 in l }} {{ 9 not in l }} {{ 'ell' in s }} {{ 'b' in d }} {{ '' in 'a' }} {{ 1 in (1, 2) }} {{ 'x' in [] }} {{ none in [none] }} {{ 1.0 in [1] }} {{ 'z' not in d and true }}
{{ true and false }} {{ true or false }} {{ not true }} {{ 1 and 2 }} {{ 0 or 'x' }} {{ '' or none or 5 }} {{ not '' }} {{ not 0 and 1 }} {{ [] and 1 }} {{ not l }} {{ 1 and not 0 }} {{ none or false }}
{{ 'a' if true else 'b' }} {{ 'a' if false else 'b' }} {{ 'a' if false }}| {{ 'a' if n > 40 else 'b' if n > 30 else 'c' }} {{ (1 if t else 2) + 1 }} {{ 'x' if missing else 'y' }} {{ 'x' if d.foo is defined else 'y' if false else 'z' }}
{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[:2] }} {{ l[::2] }} {{ l[::-1] }} {{ l[-2:] }} {{ l[:-1] }} {{ l[1:2] }} {{ l[5:] }} {{ l[:] }} {{ l[-10:2] }} {{ l[2:0:-1] }} {{ l[2::-1] }} {{ l[:0:-1] }} {{ l[-1:-3:-1] }}
{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[::2] }} {{ s[-5:] }} {{ s[:-6] }} {{ uni[0:5] }} {{ s[100:] }}| {{ s[3:1] }}| {{ s[4:0:-2] }} {{ s[:-3:-1] }} {{ s[-3::-2] }} {{ (1,2,3)[1:] }} {{ (1,2,3)[::-1] }} {{ 'ab'[5:0:-1] }} {{ ''[::-1] }}| {{ 'abc'[1::-5] }}
{{ d['b'] }} {{ d.b }} {{ d['z'] }}| {{ d.z }}| {{ users[0].name }} {{ users[0]['city']['name'] }} {{ users[-1].city.name }} {{ users.0.name }} {{ matrix[1][0] }} {{ matrix.1.0 }} {{ d['a' ~ '']|default('none') }}
{{ missing }}| {{ missing is defined }} {{ missing ~ 'x' }} {{ missing|length }} {{ missing or 'y' }} {{ missing|upper }}| {{ missing == missing }} {{ missing == none }} {{ missing|list }} {{ [missing] }} {{ missing in ['a'] }} {{ 'a' in missing }}
{{ not missing }} {{ missing|string }}| {{ missing|join }}| {{ missing|int }} {{ missing|trim }}| {{ missing|e }}| {{ missing|first }}| {{ missing|default('d')|upper }} {% for x in missing %}a{% else %}none{% endfor %} {{ missing != 1 }} {{ missing|replace('a', 'b') }}|
{{ true }} {{ false }} {{ none }} {{ True }} {{ False }} {{ None }} {{ 1.0 }} {{ 1e100 }} {{ [true, none, 1.0, 'a'] }} {{ {'a': none, 1: true} }} {{ (1,) }} {{ () }} {{ ('a', 1.5) }} {{ [[], {}, ()] }}
{{ q }} {{ [q] }} {{ ["it's"] }} {{ ['say "hi"'] }} {{ ['both \' and "'] }} {{ ['back\\slash'] }} {{ ['a\nb\tc\rd'] }} {{ ['é 你 😀'] }} {{ ['\x00\x1f\x7f\u00a0\u200b\ufeff'] }} {{ {'k\'': 'v"'} }} {{ ['\u0301\ue000\U0001f468'] }}
{{ mixed }} {{ users[0] }} {{ d }} {{ matrix }} {{ el }} {{ ed }} {{ [1e-7, 1e20, 0.1, 100.0] }} {{ {'x': [1, {'y': (1, 2)}]} }} {{ [1.0e16, -0.0] }}
{{ range(3) }} {{ range(1, 4)|list }} {{ range(5, 0, -2)|list }} {{ range(0)|list }} {{ range(3)[1] }} {{ range(10)[2:4]|list }} {{ 3 in range(5) }} {{ range(2, 8, 3)|length }} {{ range(1,3) }} {{ range(0, 10, 3) }} {{ range(3)|first }} {{ range(3)|last }} {{ range(3)|string }}
{{ 'a\tb\\n\'c\"' }} {{ "a\u00e9\x41\U0001F600" }} {{ 'a' "b" }} {{ 'multi' ' ' 'part' }} {{ '\a\b\f\v\0'|length }} {{ '\q' }} {{ '\101' }}
{{ '\N{BULLET}' }}
{{ lipsum is defined }} {{ cycler is defined }} {{ joiner is defined }} {{ dict is defined }} {{ range is defined }} {{ namespace is defined }} {{ raise_exception is defined }} {{ strftime_now is defined }} {{ debug is defined }}
{{ [1, 2, 3,] }} {{ {'a': 1,} }} {{ (1, 2,) }} {{ [[1, 2], [3]][0][1] }} {{ {'a': {'b': [10]}}.a.b[0] }} {{ {'a': 1}['a'] }} {{ {'a': 1}.items()|list }} {{ [1,2][0] + 5 }} {{ 'abc'[1] }} {{ {1: 'x'}[1] }} {{ {none: 'x'}[none] }} {{ {(1,2): 3}[(1,2)] }}
{{ 1, 2 }} {{ (1, 'a')[1] }} {% set a, b = 1, 2 %}{{ a }}{{ b }} {% set a, b = b, a %}{{ a }}{{ b }}
{% set (x, y) = 'ab' %}{{ x }}{{ y }}
{{ 5 if 0 else none }} {{ (none)|default('x', true) }} {{ none ~ '' }} {{ [none][0] }} {{ none|string|length }}
{{ 1 if 'a' in s.lower() and not 'z' in s else 2 }} {{ 'Hello' in s and 'World' in s }} {{ not 'x' in s }} {{ s == 'Hello World' and n == 42 }}
{{ users|length > 2 and users[0].age == 30 }} {{ (users|length) - 1 }} {{ users[users|length - 1].name }} {{ users[1:]|map(attribute='name')|list }} {{ (n / 5)|round(1) }} {{ n // 5 * 5 + n % 5 == n }}
{{ 9007199254740993 + 1 }} {{ 9223372036854775807 + 1 }} {{ 18446744073709551616 * 2 }} {{ 3 ** 40 }} {{ 7 // 0.5 }} {{ -7 / 2 }} {{ 1 / 3 }} {{ 1e308 * 10 }} {{ 5 // 2.0 }} {{ -5 // 2 }} {{ -5 % 2 }} {{ 5.5 % -2 }}
{{ 'a' < 'á' }} {{ 'Z' < 'a' }} {{ '10' < '9' }} {{ ['b', 'a']|sort == ['a', 'b'] }} {{ [1, 2] == [1, 2.0] }} {{ {'a': 1} == {'a': 1.0} }} {{ 0.1 + 0.2 == 0.3 }} {{ true > false }} {{ none is none and none == none }}
{{- s -}} {{ s }} {{+ s }}
{{ 10 - 3 - 2 }} {{ 100 / 10 / 2 }} {{ 2 + 3 * 4 - 1 }} {{ (2 + 3) * 4 }} {{ -(2 + 3) }} {{ not not true }} {{ 1 - -1 }} {{ 2 * -3 }} {{ -3 * -2 }} {{ 3 - 2 ** 2 }}
"""

MORE = r"""
{{ {'items': 1, 'get': 2}.items()|list }} {{ {'get': 1}.get('get') }} {{ {'items': [1]}['items'] }} {{ {'items': 1}.items is callable }} {{ {'count': 5}.count }} {{ {'title': 't'}.title }} {{ {'index': 3}.index }}
{{ l[-2:10] }} {{ l[1:-5] }} {{ l[1:] == [1, 2] }} {{ l[:2] + [9] }} {{ (l[1:]|length) }} {{ l[1:] is sequence }} {{ l[:2]|tojson }} {{ l[-1:][0] }} {{ messages[1:][0].role }} {{ l[0:2][::-1] }} {{ 'abc'[-2:] ~ 'x' }} {{ range(10)[2:4]|list }} {{ range(10)[::3]|list }} {{ range(10)[::-1] }}
{{ '%s' % none }} {{ '%s' % true }} {{ '%d%%' % 50 }} {{ '%-10s|' % 'ab' }} {{ '%+.2e' % 12345.678 }} {{ '%G' % 1e-10 }} {{ '%#x' % 255 }} {{ '%s and %s' % ['a', 'b'] if false else 'n' }} {{ '%(a)s %(b)d' % {'a': 'x', 'b': 2} }} {{ '%5.1f|' % 2.25 }} {{ '%c' % 65 }} {{ '%a' % 'é' }} {{ '% d' % 5 }} {{ '%08.3f' % -3.14159 }} {{ '%s' % (1,) }} {{ '%s' % ((1, 2),) }}
{{ '%s: %s' % (m, 1) if m is defined else '%s' % 'none' }} {{ ('a%sb' % 1) ~ ('%s' % 2) }} {{ [ '%02d' % 5, '%d' % 7 ] | join(':') }} {{ 'x' * 3 ~ '%d' % 2 ** 3 }}
{{ ' a b  c '.split(' ', 2) }} {{ 'a::b'.split('::') }} {{ 'aXbXc'.rsplit('X', maxsplit=1) }} {{ 'a\tb\nc'.split() }} {{ 'abc'.split('') if false else 1 }} {{ 'one two'.split(maxsplit=0) }} {{ ' lead'.split(maxsplit=0) }} {{ '  a  b  '.rsplit(maxsplit=1) }}
{{ 'aaa'.replace('a', 'b', count=1) if false else 'n' }} {{ 'x.y.z'.replace('.', '') }} {{ ''.replace('', 'a') }} {{ 'é'.replace('é', 'e') }}
{{ 'hello world foo'.title() }} {{ "o'neil mc-donald"|title }} {{ 'ǆ'|title }} {{ 'ß'|capitalize }} {{ 'ΑΣ'.lower() }} {{ 'ﬁ'|upper }} {{ 'İ'.lower()|length }}
{{ 'a\n  b\n'|indent(2) }}| {{ '\n'|indent(2) }}| {{ 'a\n\n'|indent(2, blank=true) }}| {{ 'a'|indent(first=true) }} {{ ''|indent(first=true) }}| {{ 'a\r\nb'|indent(1) }}
{{ '\'"&<>'|e }} {{ none|e }} {{ [1, '<']|e }} {{ '&amp;'|e }} {{ '<'|e|string|e }} {{ ('<' ~ ('>'|e)) }} {{ '%s' % ('<'|e) }}
{{ []|pprint }} {{ {}|pprint }} {{ ()|pprint }} {{ (1,)|pprint }} {{ 'a\nb'|pprint }} {{ {'b': 1, 1: 2}|pprint }} {{ {'deep': {'list': [long, {'x': words}]}}|pprint }} {{ ('x' * 100)|pprint }} {{ ('a b ' * 40)|pprint }} {{ [1.0, true, none]|pprint }}
{{ 'abc'|first }} {{ 'abc'|last }} {{ []|first }}| {{ []|last }}| {{ {}|list }} {{ ''|first }}| {{ ''|length }} {{ ''|upper }}| {{ ''|reverse }}| {{ ''|trim }}| {{ ''|title }}| {{ ''|wordcount }} {{ ''|truncate }}| {{ ''|center(4) }}| {{ ''|replace('a', 'b') }}| {{ ''.split(',') }} {{ ''.join([]) }}| {{ ''|join(',') }}| {{ ''|tojson }} {{ ''|urlize }}| {{ ''|striptags }}| {{ ''|urlencode }}| {{ ''|list }} {{ ''[0] }}| {{ ''[:2] }}| {{ ''[::2] }}| {{ ''.strip() }}| {{ ''.title() }}| {{ ''.format() }}| {{ '' % () }}| {{ ''.splitlines() }} {{ ''.partition(',') }} {{ '' in '' }} {{ ''|sort }} {{ ''|unique|list }} {{ ''|int }} {{ ''|float }} {{ ''|min }}| {{ ''|wordwrap }}| {{ ''|string }}| {{ ''|batch(2)|list }} {{ ''|map('upper')|list }}
{{ 1.5|round|int }} {{ 3.14159|round(2) }} {{ 1e15|round(1) }} {{ -0.5|round }} {{ 0.15|round(1) }} {{ 7|round(2) }} {{ 1234.5678|round(-2) }} {{ 5.015|round(2) }}
{{ [3, 1]|sort(reverse=True)|first }} {{ ['b', 'A', 'c']|sort }} {{ ['b', 'A', 'c']|sort(case_sensitive=True) }} {{ [[2, 'a'], [1, 'b']]|sort }} {{ [{'a': 2}, {'a': 1}]|sort(attribute='a') }} {{ [true, 0, 2]|sort }} {{ [1.5, 1]|min }}
{{ {'a': {'b': 1}}|dictsort }} {{ {'B': 1, 'a': 2}|dictsort }} {{ {2: 'x', 1: 'y'}|dictsort }} {{ {'a': 1}|items|first }} {{ {'a': 1}|length }}
{{ namespace(a=1).a }} {{ namespace(a=1)['a'] }} {{ dict(a=1).a }} {{ dict(a=1)|tojson }} {{ dict([['x', 1], ['y', 2]]) }} {{ range(0)|list }} {{ range(-3)|list }} {{ range(5)|sum }} {{ range(3)|reverse|list }} {{ range(4)[-1] }}
{{ s.startswith(('a', 'Hello')) }} {{ 'a.b'.endswith(('.b', '.c')) }} {{ s.startswith('') }} {{ 'abc'.find('c', 1, 2) }} {{ 'abc'.count('') }} {{ 'x'.isalpha() and 'x'.islower() }} {{ '²'.isdigit() }} {{ '٣'.isdecimal() }} {{ '五'.isnumeric() }}
{{ '{:,}'.format(1234567) }} {{ '{:>8.2f}'.format(3.14159) }} {{ '{0!r:>6}'.format('a') }} {{ '{:.3}'.format('abcdef') }} {{ '{:.3}'.format(3.14159) }} {{ '{}'.format([1, 'x']) }} {{ '{a[0]}'.format(a=[7]) }} {{ '{:d}'.format(true) }} {{ '{:5}|'.format(true) }} {{ '{:08,.1f}'.format(1234.5) }} {{ '{:%}'.format(0.5) }} {{ '{:c}'.format(65) }} {{ '{:<5}|{:^5}|{:>5}'.format(1, 2, 3) }} {{ '{:=+6d}'.format(42) }}
{{ 5 // 2 }} {{ 5 // -2 }} {{ 5 % -3 }} {{ 2 ** 3 }} {{ 10 / 5 }} {{ 1 / 4 }} {{ 3 * 1.5 }} {{ 10 // 3 * 3 + 10 % 3 }} {{ (7 % 3) ** 2 }} {{ -7 // 2 * 2 }} {{ 1e10 }} {{ 1.0e3 }} {{ 12345678.9 }} {{ 0.1 * 3 }} {{ 2 ** 63 }} {{ -2 ** 63 }} {{ 10 ** 30 }} {{ 4 ** 0.5 }}
"""

STATEMENTS = r"""
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}
{% for x in l %}{{ loop.cycle('odd', 'even') }} {% endfor %}{% for x in 'aabbc' %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}
{% for x in l %}{{ loop.previtem }}-{{ x }}-{{ loop.nextitem }};{% endfor %} {% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}
{% for x in l %}{% for y in 'ab' %}{{ loop.depth }}{{ loop.depth0 }}{{ loop.index }}{% endfor %}{% endfor %}
{% for n in tree recursive %}{{ n.v }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% endfor %}
{% for n in tree recursive %}{{ n.v }}:{{ loop.depth }}{{ loop.index }}[{{ loop(n.c) }}]{% endfor %}
{% for x in l if x > 1 %}{{ x }}{{ loop.index }}/{{ loop.length }} {% else %}none{% endfor %}{% for x in l if x > 9 %}{{ x }}{% else %}none{% endfor %}
{% for x in [] %}{{ x }}{% else %}empty{% endfor %} {% for x in [1] %}{{ x }}{% else %}empty{% endfor %}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% endfor %} {% for a, b in [[1, 2], (3, 4)] %}{{ a + b }} {% endfor %} {% for (a, b), c in [[[1, 2], 3]] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in ['xy', 'zw'] %}{{ a }}.{{ b }} {% endfor %}
{% for x in 'abc' %}{{ x }},{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for x in range(3) %}{{ x }}{% endfor %} {% for x in (1, 2) %}{{ x }}{% endfor %} {% for x in l|sort|reverse %}{{ x }}{% endfor %}
{% for x in range(10) %}{% if x == 3 %}{% continue %}{% endif %}{% if x == 6 %}{% break %}{% endif %}{{ x }}{% endfor %} {% for x in l %}{% break %}{% else %}no{% endfor %}
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}
{% set ns = namespace(x=0, found=false) %}{% for i in l %}{% set ns.x = ns.x + i %}{% if i == 1 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.x }}{{ ns.found }} {{ ns.nope is defined }}
{% set ns = namespace() %}{% set ns.a = [] %}{% for i in l %}{% set ns.a = ns.a + [i * 2] %}{% endfor %}{{ ns.a }} {% set ns2 = namespace({'q': 1}, r=2) %}{{ ns2.q }}{{ ns2.r }} {{ ns2['q'] }}
{% set x %}abc {{ s }}{% endset %}{{ x }}{{ x|length }} {% set y | upper %}abc{% endset %}{{ y }} {% set z | replace('a', 'b') | upper %}aXa{% endset %}{{ z }}
{% set x = {'a': 1} %}{% set x = dict(x, b=2) %}{{ x }} {% set l2 = l + [4] %}{{ l2 }} {% set l2 = l2 | list %}{{ l2|length }}
{% macro m(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c='z') }}{{ m(a=5, b=6) }}{{ m() }}{{ m(*[7, 8]) }}{{ m(**{'a': 9}) }}
{% macro m(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ m(1, 2, 3) }}
{% macro m(a) %}{{ a }}{{ kwargs }}{% endmacro %}{{ m(1, k='v') }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m.name }} {{ m.arguments }}
{{ lipsum(1)|length > 0 }}
{{ 'é'.encode('utf-8') }}
{{ 2 ** 127 * 2 }}
{% macro outer(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call outer('b') %}bold {{ s }}{% endcall %} {% macro lst(items) %}{% for i in items %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(x) lst(l) %}({{ x }}){% endcall %}
{% macro m() %}{{ s }}{{ n }}{% endmacro %}{{ m() }}{{ m()|upper }}{{ m() ~ 'x' }}{{ m()|length }} {% macro rec(x) %}{{ x }}{% if x > 0 %}{{ rec(x - 1) }}{% endif %}{% endmacro %}{{ rec(3) }} {{ m() == 'Hello World42' }} {{ m() is string }}
{% macro m(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ m(1, 2) }}{% macro k(d) %}{% for a, b in d|items %}{{ a }}{{ b }}{% endfor %}{% endmacro %}{{ k({'p': 1}) }} {% macro t() -%} x {%- endmacro %}[{{ t() }}]
{% with a = 1, b = a is defined %}{{ a }}{{ b }}{% endwith %}{{ a is defined }} {% with %}{% set q2 = 5 %}{{ q2 }}{% endwith %}{{ q2 is defined }} {% with x = n + 1 %}{{ x }}{% endwith %}
{% if n > 40 %}big{% elif n > 20 %}mid{% else %}small{% endif %} {% if not l %}a{% elif l|length == 3 %}three{% endif %} {% if s and n and l %}all{% endif %} {% if zero or empty or el or ed or nothing or no %}some{% else %}none{% endif %}
{% raw %}{{ not rendered }}{% if %}{% endraw %} {%- raw -%}  x {{ y }} {%- endraw -%} z
a  {%- if true -%}  b  {%- endif -%}  c
{%- if true %} a {% endif -%}   b
{% set a = 'x' -%}   y
{{ '{{' }} {{ '%}' }} {{ "}}" }} {{ '{%' ~ ' x' }} { { } } {a} {{ {'a': {'b': 1}} }}
{% set _ = l %}{{ _ }} {% set class = 'k' %}{{ class }}
{% set é = 5 %}{{ é }}
{% block b %}in block {{ s }}{% endblock %} {% block c scoped %}x{% endblock c %}
{% autoescape true %}{{ '<b>' }}{% endautoescape %}{{ '<b>' }}
{% autoescape false %}{{ '<b>' }}{% endautoescape %}
{% do l %}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}
{% set j = joiner(', ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}
{% if raise %}{{ raise_exception('x') }}{% endif %}ok
{{ raise_exception('message with "quotes"') }}
{{ strftime_now('%%') }} {{ strftime_now('')|length }}
{% for m in messages %}{{ '<|' ~ m.role ~ '|>' ~ m['content']|trim }}{% if loop.last and m.role != 'assistant' %}<|assistant|>{% endif %}{% endfor %}
{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}
{% set loop_messages = messages[1:] if messages[0].role == 'system' else messages %}{{ loop_messages|length }}{% set sys = messages[0].content if messages[0].role == 'system' else '' %}{{ sys }}
{% for m in messages|selectattr('role', 'equalto', 'user') %}{{ m.content }}{% endfor %} {{ (messages|selectattr('role', 'ne', 'user')|list)|length }} {{ messages|map(attribute='role')|join('>') }} {{ messages[-1]['role'] }} {{ messages[::-1][0].role }}
{%- set ns = namespace(last=-1) -%}{%- for m in messages -%}{%- if m.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endif -%}{%- endfor -%}{{ ns.last }}
{% set content = messages[0].content %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1]|trim %}{% endif %}{{ content }}
{{ messages }} {{ messages[0]|tojson }} {{ messages[0].items()|list }} {{ messages|length }} {{ tools is none }} {{ documents is none }} {{ add_generation_prompt }}
{% generation %}x{{ s }}{% endgeneration %} {%- generation -%} y {%- endgeneration -%} z
{% set x = 5 %}{% if true %}{% set x = 6 %}{% endif %}{{ x }} {% for i in [1] %}{% set inner = 1 %}{% endfor %}{{ inner is defined }} {% if false %}{% set u = 1 %}{% endif %}{{ u is defined }}
{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% if i == 1 %}{% continue %}{% endif %}|{% endfor %}
{% set items = [] %}{% for x in l %}{% set items = items + [x] %}{% endfor %}{{ items }}
{% for x in l %}{% if loop.first %}[{% endif %}{{ x }}{{ ', ' if not loop.last else ']' }}{% endfor %}
{% for u in users|sort(attribute='name') %}{{ loop.index }}. {{ u.name }} ({{ u.age }}){{ '\n' if not loop.last }}{% endfor %}
{%- for k, v in users[0]|dictsort %}{{ k }}={{ v }};{% endfor -%}
{% set x = namespace(value='') %}{% for c in s %}{% set x.value = c ~ x.value %}{% endfor %}{{ x.value }}
{% macro f(x) %}{{ x }}{% endmacro %}{% set r = f(1) %}{{ r ~ r }} {{ [f(1), f(2)]|join('-') }} {{ f([1, 'a']) }} {{ f({'a': 1}) }} {{ f(none) }} {{ f() }}|
{%- if add_generation_prompt %}gp{% else %}nogp{% endif %} {%- if tools %}tools{% endif %} {%- if not tools is none %}tn{% endif %}
"""

# Their errors are jinja2's errors too: of a kind, not of a wording.
ERRORS = r"""
{{ missing.foo }}
{{ missing['foo'] }}
{{ missing() }}
{{ missing + 1 }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ s.nope() }}
{{ d.nope() }}
{{ l.append(1) }}
{{ d.update({'a': 1}) }}
{{ d.pop('a') }}
{{ l.sort() }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ 'a' - 'b' }}
{{ [1] + 'a' }}
{{ n.foo.bar }}
{{ s|nope }}
{{ s is nope }}
{{ nope(s) }}
{{ 'abc'.index('z') }}
{{ l.index(99) }}
{{ '%d' % 'a' }}
{{ '%s %s' % 'a' }}
{{ '%s' % ('a', 'b') }}
{{ '{} {}'.format(1) }}
{{ none + 1 }}
{{ -'a' }}
{{ 'a' < 1 }}
{{ none|length }}
{{ 5|length }}
{{ none|list }}
{% for x in 5 %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% set d.x = 1 %}
{% if %}{% endif %}
{{ s
{% for x in l %}
{{ 'a' in 5 }}
{{ l[0:1:0] }}
{{ 'a'.split('') }}
{{ s.__class__ }}
{{ ''.__class__.__mro__ }}
{{ l|map('nope')|list }}
{{ l|map()|list }}
{{ l|select('nope')|list }}
{{ d|dictsort(by='x') }}
{{ 5|round(1, 'x') }}
{{ users|sort }}
{{ [1, 'a']|sort }}
{{ [1, 'a']|max }}
{{ {'a b': 1}|xmlattr }}
{{ range(1000000) }}
{{ range(10, 0, 0) }}
{{ 'x'.join([1]) }}
{{ 'a' * 'b' }}
{{ 2 ** 'a' }}
{{ missing|abs }}
{{ s|abs }}
{{ none.x }}
{{ none['x'].y }}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=2) }}
{% call s() %}{% endcall %}
{% include 'x' %}
{% extends 'x' %}
{% import 'x' as y %}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% break %}
{% endif %}
{% unknown %}
{{ 1 | tojson(foo=1) }}
{{ missing|tojson }}
{{ 5() }}
"""

BLOCKS = [
    "{% filter indent(2, true) %}a\nb{% endfilter %}",
    "{# comment #}a{#- trim -#} b {# multi\nline #}c {#{{ x }}#}d",
    "line1\n{% if true %}\nline2\n{% endif %}\nline3\n  {% if true %}\n    indented\n  {% endif %}\nend",
    "x {%+ if true %} y {% endif +%}\nz",
    "  {%+ if true %}a{% endif %}\n  {# c #}\n  b",
    "{% for x in l -%}\n  {{ x }}\n{%- endfor %}\n|",
    "{% for x in l %}\n{{ x }}\n{% endfor %}\n|",
    "{{ s }}\n\n{{ n }}\n\n\n",
    "text with trailing newlines\n\n",
    "one newline\n",
    "a\r\nb\rc {% if true %}\r\nd{% endif %}\r\n",
    "{{ 'a\\\nb' }}",
    "{{ 'a\nb' }}",
    "",
    " ",
    "\n",
    "\t{% if true %}\tx\n\t{% endif %}\ty",
    "{%- for m in messages %}\n    {{- m.role }}:\n    {{ m.content }}\n{%- endfor %}",
    "{% set x %}\n  a\n{% endset %}[{{ x }}]",
    "{% macro m() %}\n  a\n{% endmacro %}[{{ m() }}]",
    "a\n    {#- c -#}    \nb",
    "a {# c #}\nb\n{# d #}\ne",
    "{{\n  s\n  | upper\n}}",
    "{% if s\n   and n %}x{% endif %}",
    "{% raw %}\n{{ a }}\n{% endraw %}\nb",
    "{{ 'é' }}\u00e9 \U0001f600\u2028x\n",
    "{{- '\\n' }} a {{ '\\n' -}} \n b",
    "{% for x in l %}{{ x }}{% if not loop.last %}\n{% endif %}{% endfor %}",
    "    {% set x = 1 %}    \n{{ x }}",
    "a    {% set x = 1 %}    b",
    "{% generation %}\nx\n{% endgeneration %}\ny",
    "{{ x }}{# a #}{# b #}\n\n{#- c #}\nd",
]
