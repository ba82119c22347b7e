open("cycle.jinja", "w").write("{% set ns = namespace(x=0) %}{% set ns.x = ns %}{{ ns ~ 'a' }}")
