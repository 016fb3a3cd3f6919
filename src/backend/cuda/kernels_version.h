// The way in which this program's kernels are made and measured. What was measured of others is measured
// again.
#pragma once

namespace snug {

// A hash of the sources that have a part in it, made when they are compiled (cmake/SnugSourceHash.cmake).
extern const char* const kKernelsVersion;

}  // namespace snug
