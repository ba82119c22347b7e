from staging import *

model = copy_model()
