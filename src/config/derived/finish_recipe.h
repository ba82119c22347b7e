// RecipePlan, completed and checked: UserError for options that exclude one another.
#pragma once

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

void finish_recipe(Plan& plan, const Settings& settings);

}  // namespace hone::config
