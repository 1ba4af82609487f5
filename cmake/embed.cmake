# tenet_embed(FOLDER): the tables of the sources as strings of the library, in FOLDER/embed.c and FOLDER/tenet_embed.h.
function(tenet_embed folder)
  cmake_path(GET CMAKE_CURRENT_FUNCTION_LIST_DIR PARENT_PATH root)
  file(GLOB tables CONFIGURE_DEPENDS ${root}/src/rewrite/rules/*.rules ${root}/src/ir/*.inc ${root}/src/render/*.inc
       ${root}/src/backend/*/*.inc ${root}/proofs/coq/*.v)
  add_custom_command(
    OUTPUT ${folder}/embed.c ${folder}/tenet_embed.h
    COMMAND sh ${root}/tools/embed ${folder} ${tables}
    DEPENDS ${root}/tools/embed ${tables}
    COMMENT "Embedding tables"
    VERBATIM)
endfunction()
