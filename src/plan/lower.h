// Pass: from a program that knows no device to the one that a device runs.
#pragma once

#include "backend/device.h"
#include "program/program.h"

namespace snug {

// Every buffer gets a home that the device has, and every op the scratch memory that its kernel asks for, as
// a buffer of its own. Throws bad_input for an op that the device cannot run.
Program lower(Program program, const Device& device);

}  // namespace snug
