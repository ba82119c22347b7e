open("run.yaml", "w", encoding="utf-8").write('"\\e[2J\\x9Bkey": 1\n')
