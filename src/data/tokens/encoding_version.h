// The way in which this program turns rows into tokens. What another program cached is then made again.
#pragma once

namespace snug {

// A hash of the sources that have a part in it, made when they are compiled (cmake/SnugSourceHash.cmake).
extern const char* const kEncodingVersion;

}  // namespace snug
