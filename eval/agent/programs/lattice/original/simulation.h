// A whole run.
#pragma once
#include "files.h"
#include "settings.h"

Results simulate(const Case &given, const Settings &settings);
