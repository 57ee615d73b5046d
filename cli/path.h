/* File names: their folders, their last components, and whether two of them name the same file. */
#ifndef SMOL_CLI_PATH_H
#define SMOL_CLI_PATH_H

#include "common/file.h" /* smol_path_folder, smol_path_join, smol_base_name, smol_same_file */

#endif
