// The Python that speaks with the hub, embedded by the build: hub_download.py and hub_push.py of this folder.
#pragma once

#include "commands/python/hub_download_text.h"
#include "commands/python/hub_push_text.h"
