from staging import copy_model

copy_model()
