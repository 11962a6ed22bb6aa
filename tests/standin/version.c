/* The one source that differs between the stand-in's driver versions. */
extern const int sim_driver_version;
const int sim_driver_version = SIM_DRIVER_VERSION;
