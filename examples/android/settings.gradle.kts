pluginManagement {
    repositories {
        google()
        mavenCentral()
        gradlePluginPortal()
    }
}

dependencyResolutionManagement {
    repositories {
        google()
        mavenCentral()
    }
}

rootProject.name = "shop"
include(":app", ":campanile")
project(":campanile").projectDir = file("../../clients/kotlin")
