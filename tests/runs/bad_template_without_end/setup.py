open("endless.jinja", "w").write("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}")
